//! Stores that wrap another store.

use async_trait::async_trait;

use crate::{
    CommitError, Entry, HistoryMark, Import, ImportError, Key, Page, Prefix, Range, ReadError, Revision,
    Store, StoreError, StoreHealth, WatchError, WatchStream, Write,
};

/// A store that wraps another one. Every call that it does not override is passed on, so that no method with a default
/// in [`Store`] is forgotten.
///
/// Implement this instead of [`Store`].
#[async_trait]
#[expect(missing_docs, reason = "each method is that of `Store`")]
pub trait DelegatingStore: Send + Sync + 'static {
    /// The wrapped store.
    fn inner(&self) -> &dyn Store;

    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        self.inner().get(key).await
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        self.inner().range(prefix, page).await
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        self.inner().commit(write).await
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        self.inner().watch(prefix, after).await
    }

    async fn is_stale(&self, key: &Key) -> Result<bool, ReadError> {
        self.inner().is_stale(key).await
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        self.inner().compact(upto).await
    }

    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        self.inner().history_mark().await
    }

    async fn replace_history_mark(
        &self,
        expected: Option<HistoryMark>,
        mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        self.inner().replace_history_mark(expected, mark).await
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        self.inner().current_revision().await
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        self.inner().health().await
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        self.inner().begin_import(source).await
    }

    async fn discard(&self) -> Result<(), ImportError> {
        self.inner().discard().await
    }

    async fn close(&self) {
        self.inner().close().await;
    }
}

#[async_trait]
impl<S: DelegatingStore> Store for S {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        DelegatingStore::get(self, key).await
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        DelegatingStore::range(self, prefix, page).await
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        DelegatingStore::commit(self, write).await
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        DelegatingStore::watch(self, prefix, after).await
    }

    async fn is_stale(&self, key: &Key) -> Result<bool, ReadError> {
        DelegatingStore::is_stale(self, key).await
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        DelegatingStore::compact(self, upto).await
    }

    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        DelegatingStore::history_mark(self).await
    }

    async fn replace_history_mark(
        &self,
        expected: Option<HistoryMark>,
        mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        DelegatingStore::replace_history_mark(self, expected, mark).await
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        DelegatingStore::current_revision(self).await
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        DelegatingStore::health(self).await
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        DelegatingStore::begin_import(self, source).await
    }

    async fn discard(&self) -> Result<(), ImportError> {
        DelegatingStore::discard(self).await
    }

    async fn close(&self) {
        DelegatingStore::close(self).await;
    }
}
