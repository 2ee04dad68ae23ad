//! The images that this node pulled.
//!
//! Promises: the list survives a restart of the agent. It never contains an image from another source (`docker build`, another
//! cluster). An unreadable file is logged and counts as an empty list: the images in it are not garbage collected then.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::image_list_file;
use crate::{blocking::run_blocking, runtime::Image};

/// File in the data directory of the agent: one image ID per line.
const FILE: &str = "pulled-images";

/// IDs of the images that this node pulled. Clones share state.
#[derive(Clone, Debug)]
pub struct PulledImages {
    path: PathBuf,
    ids: Arc<Mutex<BTreeSet<String>>>,
    /// Held while the file is written (single flight): the newest list is written last.
    writing: Arc<tokio::sync::Mutex<()>>,
}

// --- PulledImages ---

impl PulledImages {
    /// Reads the list from the data directory of the agent. Blocks on file I/O.
    pub fn open(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let ids = image_list_file::read(&path).unwrap_or_else(|error| {
            tracing::warn!(path = %path.display(), %error, "failed to read the list of pulled images: images in it are not removed when the disk fills up");
            BTreeSet::new()
        });
        PulledImages {
            ids: Arc::new(Mutex::new(ids)),
            writing: Arc::default(),
            path,
        }
    }

    /// Whether this node pulled the image.
    pub fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }

    /// Adds an image that was just pulled.
    pub(crate) async fn add(&self, image: &Image) {
        let is_new = self.ids().insert(image.id.clone());
        if is_new {
            self.write().await;
        }
    }

    /// Drops the images that are no longer present.
    pub async fn retain(&self, is_present: impl Fn(&str) -> bool) {
        let is_shorter = {
            let mut ids = self.ids();
            let before = ids.len();
            ids.retain(|id| is_present(id));
            ids.len() != before
        };
        if is_shorter {
            self.write().await;
        }
    }

    async fn write(&self) {
        let _writing = self.writing.lock().await;
        let ids = self.ids().clone();
        let path = self.path.clone();
        if let Err(error) = run_blocking(move || image_list_file::write(&path, &ids)).await {
            tracing::warn!(path = %self.path.display(), %error, "failed to write the list of pulled images");
        }
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pulled_images_survive_restart() {
        let directory = tempfile::tempdir().unwrap();
        let image = |id: &str| Image {
            id: id.to_owned(),
            ..Image::default()
        };
        let pulled = PulledImages::open(directory.path());
        pulled.add(&image("sha256:a")).await;
        pulled.add(&image("sha256:b")).await;
        let reopened = PulledImages::open(directory.path());
        assert!(
            reopened.contains("sha256:a") && reopened.contains("sha256:b") && !reopened.contains("sha256:c")
        );
        reopened.retain(|id| id == "sha256:b").await;
        let last = PulledImages::open(directory.path());
        assert!(!last.contains("sha256:a") && last.contains("sha256:b"));
    }
}
