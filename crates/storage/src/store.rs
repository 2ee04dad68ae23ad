//! The trait that all backends implement.

use async_trait::async_trait;

use crate::{
    CommitError, Entry, HistoryMark, ImportError, Key, Page, Prefix, Range, ReadError, Revision, StoreError,
    WatchError, WatchStream, Write,
};

/// A revisioned key-value store.
///
/// Reads are linearizable: they see every write of any process that was acknowledged before the read started.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the entry of a key.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError>;

    /// Lists a page of the entries with a prefix, at one revision.
    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError>;

    /// Applies a write if its precondition holds, and returns its revision once it is durable.
    async fn commit(&self, write: Write) -> Result<Revision, CommitError>;

    /// Watches the commits with a prefix after revision `after`: first the past ones, then new ones.
    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError>;

    /// Whether an unchanged value should be written again because it is stored in an outdated way, for example encrypted with
    /// an old key.
    async fn is_stale(&self, _key: &Key) -> Result<bool, ReadError> {
        Ok(false)
    }

    /// Compacts the history: states before revision `upto` can no longer be read, and no watch can start after a lower revision.
    /// Live entries are kept. A future revision counts as the newest; an already compacted one has no effect.
    async fn compact(&self, upto: Revision) -> Result<(), StoreError>;

    /// Returns the history mark that the compactors of all processes on this store share; `None` before the first.
    ///
    /// The default is for stores without persistent marks: a compactor then keeps its mark in memory. A wrapping store must forward
    /// both methods.
    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        Ok(None)
    }

    /// Compare-and-swap of the history mark; returns whether it was replaced. Not visible in entries or watches.
    async fn replace_history_mark(
        &self,
        _expected: Option<HistoryMark>,
        _mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Returns the newest revision from the store itself, for which a consistent read from a cache must wait.
    ///
    /// Every open watch of this handle will reach it by an event or an empty batch, even if no process writes.
    async fn current_revision(&self) -> Result<Revision, StoreError>;

    /// Checks whether the store can serve reads and writes.
    async fn health(&self) -> Result<StoreHealth, StoreError>;

    /// Starts an import into an empty store from another one whose newest revision is `source`.
    ///
    /// Until [`Import::finish`], the store rejects all other operations with [`StoreError::UnfinishedImport`], also after a
    /// crash. A new import discards the entries of an unfinished one.
    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError>;

    /// Deletes all entries to prepare an import. Until an import has finished, the store rejects all other operations with
    /// [`StoreError::UnfinishedImport`], also after a crash. Revisions are never reused. No other process may use the store.
    async fn discard(&self) -> Result<(), ImportError>;

    /// Stops background tasks and ends all watches with [`StoreError::Closed`]. Acknowledged writes are durable without it.
    async fn close(&self);
}

/// An unfinished import.
#[async_trait]
pub trait Import: Send {
    /// Adds entries. They keep their revisions if the backend supports that, else they get new ones above the source's newest.
    /// A late error is returned by the next call.
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError>;

    /// Opens the store for use and returns its revision, which is not below the source's newest revision and above all revisions
    /// that this store returned while it was empty. It has no history. Fails if another import was started meanwhile.
    async fn finish(self: Box<Self>) -> Result<Revision, ImportError>;
}

/// The health report of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// The name of the backend.
    pub backend: &'static str,
    /// The current revision.
    pub revision: Revision,
}
