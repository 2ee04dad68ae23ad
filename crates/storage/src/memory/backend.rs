//! The backend `memory`.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;

use super::MemoryStore;
use crate::{
    OpenError, Store,
    backend::{BackendSettings, ConfigureError, SettingValues, StorageBackend, StorageConfig},
};

/// Stores in memory.
#[derive(Debug)]
pub struct MemoryBackend;

/// A new store in memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions;

// --- MemoryBackend ---

impl StorageBackend for MemoryBackend {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn title(&self) -> &'static str {
        "memory"
    }

    fn summary(&self) -> &'static str {
        "In memory: lost when the server stops"
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn is_persistent(&self) -> bool {
        false
    }

    fn settings(&self) -> &'static BackendSettings {
        &BackendSettings {
            all: &[],
            parts: &[],
            alternatives: &[],
        }
    }

    fn configure(
        &self,
        _values: &SettingValues,
        _data_dir: &Path,
    ) -> Result<Box<dyn StorageConfig>, ConfigureError> {
        Ok(Box::new(MemoryOptions))
    }
}

// --- MemoryOptions ---

#[async_trait]
impl StorageConfig for MemoryOptions {
    fn backend(&self) -> &'static dyn StorageBackend {
        &MemoryBackend
    }

    fn describe(&self) -> String {
        MemoryBackend.name().to_owned()
    }

    async fn open(&self) -> Result<Arc<dyn Store>, OpenError> {
        Ok(MemoryStore::new())
    }
}
