//! How an informer is.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// How an informer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InformerHealth {
    /// Its first list is not complete.
    Starting,
    /// It holds what the server has.
    Synced,
    /// It cannot go on. What it holds is as old as this state is.
    Broken {
        /// Since when.
        since: Instant,
        /// Why.
        error: String,
        /// How long after the last attempt the next one comes.
        retry_in: Duration,
    },
}

/// What an informer has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerStats {
    /// What it is about: the path of its list and its selectors.
    pub name: String,
    /// How many objects it holds.
    pub objects: usize,
    /// How many lists it has begun.
    pub lists: u64,
    /// How many watches it has begun.
    pub watches: u64,
    /// How many objects it has decoded.
    pub decoded: u64,
    /// How many deltas it has told of, each counted once however many handlers there are.
    pub deltas: u64,
    /// How many objects it could not read.
    pub unreadable: u64,
    /// How many times it failed.
    pub failures: u64,
    /// How many handlers panicked.
    pub panics: u64,
}

/// What changes while an informer runs.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) is_synced: bool,
    /// The newest version seen.
    pub(super) version: Option<u64>,
    pub(super) health: InformerHealth,
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) lists: AtomicU64,
    pub(super) watches: AtomicU64,
    pub(super) decoded: Arc<AtomicU64>,
    pub(super) deltas: AtomicU64,
    pub(super) unreadable: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) panics: AtomicU64,
}

// --- Progress ---

impl Default for Progress {
    fn default() -> Self {
        Progress {
            is_synced: false,
            version: None,
            health: InformerHealth::Starting,
        }
    }
}

// --- Counts ---

impl Counts {
    pub(super) fn figures(&self, name: &str, objects: usize) -> InformerStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        InformerStats {
            name: name.to_owned(),
            objects,
            lists: read(&self.lists),
            watches: read(&self.watches),
            decoded: read(&self.decoded),
            deltas: read(&self.deltas),
            unreadable: read(&self.unreadable),
            failures: read(&self.failures),
            panics: read(&self.panics),
        }
    }
}

/// Counts one more.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

// --- InformerHealth ---

impl fmt::Display for InformerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InformerHealth::Starting => f.write_str("not synced"),
            InformerHealth::Synced => f.write_str("synced"),
            InformerHealth::Broken { error, retry_in, .. } => {
                write!(f, "{error}; tried again in {retry_in:?}")
            }
        }
    }
}
