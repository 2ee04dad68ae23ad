//! The read half of the store. The write half is `registry/commit.rs`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use k3_storage::{
    Entry, Key, Page, Prefix, Range, ReadError, Revision, Store, StoreError, StoreHealth, WatchError,
    WatchStream,
};

/// A store that cannot be written to: what has this, and no `StoreWriter`, commits nothing.
#[derive(Clone)]
pub(crate) struct ReadOnlyStore(Arc<dyn Store>);

// --- ReadOnlyStore ---

impl ReadOnlyStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        ReadOnlyStore(store)
    }

    /// The entry of a key.
    pub(crate) fn get<'s>(&'s self, key: &'s Key) -> BoxFuture<'s, Result<Option<Entry>, ReadError>> {
        self.0.get(key)
    }

    /// A page of the entries with a prefix, at one revision.
    pub(crate) fn range<'s>(
        &'s self,
        prefix: &'s Prefix,
        page: Page,
    ) -> BoxFuture<'s, Result<Range, ReadError>> {
        self.0.range(prefix, page)
    }

    /// The commits with a prefix after a revision.
    pub(crate) fn watch<'s>(
        &'s self,
        prefix: &'s Prefix,
        after: Revision,
    ) -> BoxFuture<'s, Result<WatchStream, WatchError>> {
        self.0.watch(prefix, after)
    }

    /// Whether an unchanged value should be written again.
    pub(crate) fn is_stale<'s>(&'s self, key: &'s Key) -> BoxFuture<'s, Result<bool, ReadError>> {
        self.0.is_stale(key)
    }

    /// The newest revision, from the store itself.
    pub(crate) fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.0.current_revision()
    }

    /// Whether the store can serve reads and writes.
    pub(crate) fn health(&self) -> BoxFuture<'_, Result<StoreHealth, StoreError>> {
        self.0.health()
    }

    /// The store itself, for tests that write to it as another server would.
    #[cfg(test)]
    pub(crate) fn writable(&self) -> &Arc<dyn Store> {
        &self.0
    }
}
