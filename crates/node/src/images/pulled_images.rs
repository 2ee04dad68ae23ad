//! The images that this node pulled.
//!
//! Promises: the list survives a restart of the agent. It never contains an image from another source (`docker build`, another
//! cluster). A missing or damaged file counts as an empty list: no image is garbage collected then.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::runtime::Image;

/// File in the data directory of the agent: one image ID per line.
const FILE: &str = "pulled-images";

/// IDs of the images that this node pulled. Clones share state.
#[derive(Clone, Debug)]
pub struct PulledImages {
    path: PathBuf,
    ids: Arc<Mutex<BTreeSet<String>>>,
}

// --- PulledImages ---

impl PulledImages {
    /// Reads the list from the data directory of the agent.
    pub fn open(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let ids = text.lines().filter(|id| !id.is_empty()).map(ToOwned::to_owned);
        PulledImages {
            ids: Arc::new(Mutex::new(ids.collect())),
            path,
        }
    }

    /// Whether this node pulled the image.
    pub fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }

    /// Adds an image that was just pulled.
    pub(crate) fn add(&self, image: &Image) {
        let mut ids = self.ids();
        if ids.insert(image.id.clone()) {
            self.write(&ids);
        }
    }

    /// Drops the images that are no longer present.
    pub fn retain(&self, is_present: impl Fn(&str) -> bool) {
        let mut ids = self.ids();
        let before = ids.len();
        ids.retain(|id| is_present(id));
        if ids.len() != before {
            self.write(&ids);
        }
    }

    fn write(&self, ids: &BTreeSet<String>) {
        // Renamed into place: a crash leaves the old list or the new one, never half of one.
        let write = || -> io::Result<()> {
            let partial = self.path.with_extension("partial");
            let mut text = String::new();
            for id in ids {
                text.push_str(id);
                text.push('\n');
            }
            std::fs::write(&partial, text)?;
            std::fs::rename(&partial, &self.path)
        };
        if let Err(error) = write() {
            tracing::warn!(path = %self.path.display(), %error, "failed to write the list of pulled images");
        }
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulled_images_survive_restart() {
        let directory = tempfile::tempdir().unwrap();
        let image = |id: &str| Image {
            id: id.to_owned(),
            ..Image::default()
        };
        let pulled = PulledImages::open(directory.path());
        pulled.add(&image("sha256:a"));
        pulled.add(&image("sha256:b"));
        let reopened = PulledImages::open(directory.path());
        assert!(
            reopened.contains("sha256:a") && reopened.contains("sha256:b") && !reopened.contains("sha256:c")
        );
        reopened.retain(|id| id == "sha256:b");
        let last = PulledImages::open(directory.path());
        assert!(!last.contains("sha256:a") && last.contains("sha256:b"));
    }
}
