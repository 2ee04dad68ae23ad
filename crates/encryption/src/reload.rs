//! Reads the configuration again when the file changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ring::digest::{Digest, SHA256, digest};
use tokio::{task::JoinHandle, time::sleep};
use zeroize::Zeroizing;

use crate::{EncryptionConfiguration, Transformers};

/// How often the file is read.
const INTERVAL: Duration = Duration::from_secs(2);

/// A task that reads the file periodically. It ends with this.
pub struct Reloader(JoinHandle<()>);

// --- Reloader ---

// upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/controller/controller.go NewDynamicEncryptionConfiguration
impl Reloader {
    /// Replaces the configuration whenever the file has another valid one. An invalid file is reported once and changes nothing.
    pub fn start(path: PathBuf, transformers: Arc<Transformers>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            let mut last = hash(&path).await;
            loop {
                sleep(INTERVAL).await;
                let now = hash(&path).await;
                if now.as_ref().map(AsRef::as_ref) == last.as_ref().map(AsRef::as_ref) {
                    continue;
                }
                last = now;
                reload(&path, &transformers).await;
            }
        });
        Self(task)
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn reload(path: &Path, transformers: &Transformers) {
    match EncryptionConfiguration::load(path) {
        Ok(configuration) => {
            transformers.replace(&configuration).await;
            tracing::info!(file = %path.display(), "reloaded the encryption configuration");
        }
        Err(error) => {
            tracing::error!(
                file = %path.display(),
                %error,
                "cannot reload the encryption configuration; the previous one stays in use"
            );
        }
    }
}

/// The hash of the file's content; `None` if it cannot be read.
async fn hash(path: &Path) -> Option<Digest> {
    let content = tokio::fs::read(path).await.map(Zeroizing::new).ok()?;
    Some(digest(&SHA256, &content))
}
