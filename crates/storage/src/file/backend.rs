//! The backend `file`: its settings, and its URLs.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;

use super::{Durability, FileOptions, FileStore};
use crate::{
    OpenError, Store,
    backend::{
        BackendSettings, ConfigureError, Setting, SettingKind, SettingValues, StorageBackend, StorageConfig,
        UrlForm, UrlSettings,
    },
};

/// Stores in a directory of this machine.
#[derive(Debug)]
pub struct FileBackend;

const PATH: Setting = Setting::new(
    "storage.file.path",
    "file_rootpath",
    SettingKind::Directory,
    "DIR",
    "With `file`: directory of the objects [default: `objects` in the data directory]",
);
const DURABILITY: Setting = Setting::new(
    "storage.file.durability",
    "file_durability",
    SettingKind::Choice(&[
        (SYNCED, "After it is on disk: survives a power loss (the default)"),
        (
            RELAXED,
            "After the operating system has it: faster, but a power loss may destroy the store",
        ),
    ]),
    "WHEN",
    "With `file`: when a write is acknowledged",
)
.with_implied_default(SYNCED);

const SYNCED: &str = "synced";
const RELAXED: &str = "relaxed";

// --- FileBackend ---

impl StorageBackend for FileBackend {
    fn name(&self) -> &'static str {
        "file"
    }

    fn title(&self) -> &'static str {
        "file"
    }

    fn summary(&self) -> &'static str {
        "In the data directory; one server"
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn is_persistent(&self) -> bool {
        true
    }

    fn settings(&self) -> &'static BackendSettings {
        &BackendSettings {
            all: &[PATH, DURABILITY],
            parts: &[],
            alternatives: &[],
        }
    }

    fn configure(
        &self,
        values: &SettingValues,
        data_dir: &Path,
    ) -> Result<Box<dyn StorageConfig>, ConfigureError> {
        let directory = match values.path(&PATH) {
            Some(directory) => directory.to_owned(),
            None => data_dir.join("objects"),
        };
        let mut options = FileOptions::new(directory);
        if values.text(&DURABILITY) == Some(RELAXED) {
            options.durability = Durability::Relaxed;
        }
        Ok(Box::new(options))
    }

    fn url_form(&self) -> Option<&'static UrlForm> {
        Some(&UrlForm {
            schemes: &["file"],
            form: "file:DIR",
            meaning: "the data directory of a server, as in `k3 start --data-dir DIR`",
            short_form: "file:DIR",
            parameters: &[],
        })
    }

    fn parse_url(&self, url: &str) -> Result<UrlSettings, &'static str> {
        let directory = url.strip_prefix("//").unwrap_or(url);
        if directory.is_empty() {
            return Err("it contains no directory");
        }
        Ok(UrlSettings {
            data_dir: directory.into(),
            flags: Vec::new(),
        })
    }
}

// --- FileOptions ---

#[async_trait]
impl StorageConfig for FileOptions {
    fn backend(&self) -> &'static dyn StorageBackend {
        &FileBackend
    }

    fn describe(&self) -> String {
        format!("{}:{}", FileBackend.name(), self.directory.display())
    }

    async fn open(&self) -> Result<Arc<dyn Store>, OpenError> {
        Ok(FileStore::open(self.clone()).await?)
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }
}
