//! The embedded store, in a folder that goes when the place does.

use std::sync::Arc;

use async_trait::async_trait;
use k3_storage::{
    Store,
    file::{FileOptions, FileStore},
};
use tempfile::TempDir;

use super::Place;

pub(crate) struct File {
    folder: TempDir,
}

#[async_trait]
impl Place for File {
    async fn fresh() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    async fn another(&self) -> Box<dyn Place> {
        Box::new(Self::fresh().await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        let options = FileOptions::new(self.folder.path());
        FileStore::open(options).await.unwrap()
    }
}
