//! The store that lives as long as its handle.

use std::sync::Arc;

use async_trait::async_trait;
use k3_storage::{Store, memory::MemoryStore};

use super::TestBackend;

pub(crate) struct Memory;

#[async_trait]
impl TestBackend for Memory {
    async fn fresh() -> Self {
        Self
    }

    async fn another(&self) -> Box<dyn TestBackend> {
        Box::new(Self::fresh().await)
    }

    async fn open(&self) -> Arc<dyn Store> {
        MemoryStore::new()
    }
}
