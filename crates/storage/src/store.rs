//! The door of this crate.

use async_trait::async_trait;

use crate::{
    CommitError, Entry, HistoryMark, ImportError, Key, Page, Prefix, Range, ReadError, Revision, StoreError,
    WatchError, WatchStream, Write,
};

/// A revisioned key-value store.
///
/// Reads see every write that was acknowledged before they were requested, by whichever process.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The entry under a key.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError>;

    /// A page of the entries under a prefix, as they were at one revision.
    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError>;

    /// Applies a write if what it expects is there, and answers with its revision once it is durable.
    async fn commit(&self, write: Write) -> Result<Revision, CommitError>;

    /// The commits under a prefix with revisions above `after`: first those that happened already,
    /// then each new one.
    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError>;

    /// Whether the value under a key should be written again although it does not change: it is stored in another way than new
    /// values are, for instance encrypted with an older key.
    async fn is_stale(&self, _key: &Key) -> Result<bool, ReadError> {
        Ok(false)
    }

    /// Forgets history: states before revision `upto` can no longer be read, and no watch can begin
    /// after a revision lower than it. Live entries stay. A revision in the future counts as the
    /// newest, one that is compacted already changes nothing.
    async fn compact(&self, upto: Revision) -> Result<(), StoreError>;

    /// The mark that the compactors of all processes on this store share; `None` before the first one.
    ///
    /// The default is that of a store which keeps none: a compactor then knows only what it has seen itself. A store
    /// that wraps another passes both methods on.
    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        Ok(None)
    }

    /// Replaces the mark if it still is `expected`, and returns whether it did. Changes no entry, and no watch
    /// shows it.
    async fn replace_history_mark(
        &self,
        _expected: Option<HistoryMark>,
        _mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// The newest revision, asked of the store itself: what a fresh read must wait for.
    ///
    /// Every watch of this handle that is open now will reach it, by an event or by an empty batch,
    /// also when no process writes.
    async fn current_revision(&self) -> Result<Revision, StoreError>;

    /// Whether the store can serve reads and take writes now.
    async fn health(&self) -> Result<StoreHealth, StoreError>;

    /// Begins to fill an empty store with the entries of another, whose newest revision is `source`.
    ///
    /// Until [`Import::finish`], the store refuses everything else with
    /// [`StoreError::UnfinishedImport`], also after a crash; beginning again clears what is there.
    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError>;

    /// Gives up all entries, so that the store can be filled with others: from here on it refuses everything but an import
    /// with [`StoreError::UnfinishedImport`] until one has finished, also after a crash. Revisions continue above all that
    /// the store has returned. No other process may be using it.
    async fn discard(&self) -> Result<(), ImportError>;

    /// Stops background work and ends all watches with [`StoreError::Closed`]. Writes that were
    /// acknowledged are safe with or without it.
    async fn close(&self);
}

/// An import under way.
#[async_trait]
pub trait Import: Send {
    /// Adds entries: with the revisions they have, where the backend can keep those, else with new
    /// ones above the source's newest. What fails after the answer is reported by the next call.
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError>;

    /// Opens the store for use and answers with where it stands: at or above the source's newest
    /// revision, and above all that this store has returned while it had no entries, with no
    /// history. Fails when the import was begun again meanwhile.
    async fn finish(self: Box<Self>) -> Result<Revision, ImportError>;
}

/// The answer of a store that is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// The backend's name.
    pub backend: &'static str,
    /// Where the store stands.
    pub revision: Revision,
}
