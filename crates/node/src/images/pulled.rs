//! Which images this node pulled itself.
//!
//! Promises: what was pulled is known after a restart; an image that somebody else brought (`docker build`, another cluster) is
//! never taken for one of these. A file that is lost or damaged is an empty one: then nothing is thrown away.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::runtime::Image;

/// The file in the directory of the agent.
const FILE: &str = "pulled-images";

/// The ids of images that this node pulled. Clones are the same.
#[derive(Clone, Debug)]
pub struct PulledImages {
    path: PathBuf,
    ids: Arc<Mutex<BTreeSet<String>>>,
}

// --- PulledImages ---

impl PulledImages {
    /// Those of the agent with this directory.
    pub fn open(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let ids = text.lines().filter(|id| !id.is_empty()).map(ToOwned::to_owned);
        PulledImages {
            ids: Arc::new(Mutex::new(ids.collect())),
            path,
        }
    }

    /// Whether it is one of them.
    pub fn contains(&self, id: &str) -> bool {
        self.ids().contains(id)
    }

    /// Adds one that was just pulled.
    pub(crate) fn add(&self, image: &Image) {
        let mut ids = self.ids();
        if ids.insert(image.id.clone()) {
            self.write(&ids);
        }
    }

    /// Keeps those that are still on this machine.
    pub fn keep_only(&self, is_there: impl Fn(&str) -> bool) {
        let mut ids = self.ids();
        let before = ids.len();
        ids.retain(|id| is_there(id));
        if ids.len() != before {
            self.write(&ids);
        }
    }

    fn write(&self, ids: &BTreeSet<String>) {
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
    fn what_was_pulled_is_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let image = |id: &str| Image {
            id: id.to_owned(),
            ..Image::default()
        };
        let pulled = PulledImages::open(folder.path());
        pulled.add(&image("sha256:a"));
        pulled.add(&image("sha256:b"));
        let again = PulledImages::open(folder.path());
        assert!(again.contains("sha256:a") && again.contains("sha256:b") && !again.contains("sha256:c"));
        again.keep_only(|id| id == "sha256:b");
        let last = PulledImages::open(folder.path());
        assert!(!last.contains("sha256:a") && last.contains("sha256:b"));
    }
}
