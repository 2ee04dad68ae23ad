//! Revisioned key-value stores behind one trait.
//!
//! Guarantees of every backend, also under `kill -9` and with two processes on one shared store:
//! an acknowledged write survives; revisions increase and are never reused; of several writes with the same precondition
//! one succeeds; a list is a snapshot; a watch is ordered, without gaps and duplicates, and fails with
//! [`WatchError::Compacted`] rather than skipping events.
//!
//! The crate knows nothing of Kubernetes, HTTP or JSON: keys are paths, values are bytes.

mod compaction_schedule;
mod compactor;
mod delegating_store;
mod entry;
mod error;
mod event;
mod expiry;
mod feed;
mod format;
mod history_budget;
mod history_mark;
mod key;
mod page;
mod plain_error;
mod revision;
mod store;
mod write;

pub mod backend;
pub mod etcd;
pub mod file;
pub mod memory;
pub mod mysql;
pub mod transfer;

pub use self::{
    compaction_schedule::CompactionSchedule,
    compactor::Compactor,
    delegating_store::DelegatingStore,
    entry::{Entry, Expiry},
    error::{CommitError, ImportError, OpenError, ReadError, StoreError, WatchError},
    event::{Change, Event, EventBatch, WatchSource, WatchStream},
    history_mark::HistoryMark,
    key::{InvalidKey, Key, Prefix},
    page::{Page, Range},
    revision::Revision,
    store::{Import, Store, StoreHealth},
    write::{MAX_VALUE_BYTES, Operation, Precondition, Write},
};
