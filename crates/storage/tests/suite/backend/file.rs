//! The embedded store, in a directory that is removed with the backend.

use std::sync::Arc;

use async_trait::async_trait;
use k3_storage::{
    Store,
    file::{FileOptions, FileStore},
};
use tempfile::TempDir;

use super::TestBackend;

pub(crate) struct File {
    directory: TempDir,
}

#[async_trait]
impl TestBackend for File {
    async fn fresh() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    async fn another(&self) -> Box<dyn TestBackend> {
        Box::new(Self::fresh().await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        let mut options = FileOptions::new(self.directory.path());
        options.journal_after = 0;
        FileStore::open(options).await.unwrap()
    }
}
