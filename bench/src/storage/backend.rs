//! The stores under test, and the servers behind them.

use std::{path::Path, sync::Arc};

use k3_storage::{
    Store,
    file::{FileOptions, FileStore},
    memory::MemoryStore,
};

use crate::{Failure, flags::Backend};

/// A store, with whatever must live as long as it.
pub(crate) struct Service {
    store: Arc<dyn Store>,
}

// --- Service ---

impl Service {
    /// Opens a fresh store, with its data in this folder.
    pub(crate) async fn start(backend: Backend, folder: &Path) -> Result<Self, Failure> {
        let store: Arc<dyn Store> = match backend {
            Backend::Memory => MemoryStore::new(),
            Backend::File => FileStore::open(FileOptions::new(folder)).await?,
        };
        Ok(Self { store })
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The server's process, if there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        None
    }
}
