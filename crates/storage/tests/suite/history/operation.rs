//! What a client requested, what it received, and when.

use std::sync::atomic::{AtomicU64, Ordering};

use k3_storage::{
    CommitError, Entry, Key, Page, Prefix, Range, ReadError, Revision, Store, StoreError, Write,
};
use parking_lot::Mutex;

/// A question and its answer, with the ticks of a clock that all clients share: when one was answered
/// at a lower tick than another was requested, it arrived first. Where the ticks are equal, neither did.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) requested: u64,
    pub(crate) answered: u64,
    pub(crate) done: OperationResult,
}

/// The result of an operation. Operations that were rejected without an effect are not recorded.
#[derive(Clone, Debug)]
pub(crate) enum OperationResult {
    /// The write happened.
    Committed { write: Write, revision: Revision },
    /// The write was rejected because of a conflict with this entry.
    Conflicted { write: Write, shown: Option<Entry> },
    /// No process knows whether the write happened.
    Uncertain { write: Write },
    /// A key was read.
    Got { key: Key, entry: Option<Entry> },
    /// A range was read.
    Listed {
        prefix: Prefix,
        page: Page,
        range: Range,
    },
    /// The current revision was read.
    ReadRevision { revision: Revision },
}

/// Asks a store and takes notes.
#[derive(Default)]
pub(crate) struct Recorder {
    clock: AtomicU64,
    notes: Mutex<Vec<Operation>>,
}

// --- Recorder ---

impl Recorder {
    /// The notes taken so far.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        self.notes.lock().clone()
    }

    pub(crate) async fn commit(&self, store: &dyn Store, write: Write) -> Result<Revision, CommitError> {
        let requested = self.tick();
        let answer = store.commit(write.clone()).await;
        let done = match &answer {
            Ok(revision) => OperationResult::Committed {
                write,
                revision: *revision,
            },
            Err(CommitError::Conflict(shown)) => OperationResult::Conflicted {
                write,
                shown: shown.clone(),
            },
            Err(CommitError::Uncertain(_)) => OperationResult::Uncertain { write },
            Err(_) => return answer,
        };
        self.note(requested, done);
        answer
    }

    pub(crate) async fn get(&self, store: &dyn Store, key: &Key) -> Result<Option<Entry>, ReadError> {
        let requested = self.tick();
        let entry = store.get(key).await?;
        let done = OperationResult::Got {
            key: key.clone(),
            entry: entry.clone(),
        };
        self.note(requested, done);
        Ok(entry)
    }

    pub(crate) async fn range(
        &self,
        store: &dyn Store,
        prefix: &Prefix,
        page: Page,
    ) -> Result<Range, ReadError> {
        let requested = self.tick();
        let range = store.range(prefix, page.clone()).await?;
        let done = OperationResult::Listed {
            prefix: prefix.clone(),
            page,
            range: range.clone(),
        };
        self.note(requested, done);
        Ok(range)
    }

    pub(crate) async fn current_revision(&self, store: &dyn Store) -> Result<Revision, StoreError> {
        let requested = self.tick();
        let revision = store.current_revision().await?;
        self.note(requested, OperationResult::ReadRevision { revision });
        Ok(revision)
    }

    fn note(&self, requested: u64, done: OperationResult) {
        let answered = self.tick();
        self.notes.lock().push(Operation {
            requested,
            answered,
            done,
        });
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}
