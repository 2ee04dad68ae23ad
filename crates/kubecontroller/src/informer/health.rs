//! The health and the counters of an informer.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Whether an informer is up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InformerHealth {
    /// The initial list is not complete.
    Starting,
    /// The store follows the server.
    Synced,
    /// The last list or watch failed. The store keeps the state from before the failure.
    Failing {
        /// When the first of the failures in a row happened.
        since: Instant,
        /// The last error.
        error: String,
        /// The delay between the last failure and the next attempt.
        retry_in: Duration,
    },
}

/// What an informer has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerStats {
    /// The name of the informer: the path of its list and its selectors.
    pub name: String,
    /// Objects in the store.
    pub objects: usize,
    /// Lists started.
    pub lists: u64,
    /// Watches started.
    pub watches: u64,
    /// Objects decoded.
    pub decoded: u64,
    /// Deltas sent. Each counts once, whatever the number of handlers.
    pub deltas: u64,
    /// Objects that did not decode as the stored type.
    pub undecodable: u64,
    /// Lists and watches that failed.
    pub failures: u64,
    /// Event handler calls that panicked.
    pub panics: u64,
}

/// The state of an informer that its handles can wait for.
#[derive(Clone, Debug)]
pub(super) struct InformerProgress {
    pub(super) is_synced: bool,
    /// The newest resource version seen.
    pub(super) version: Option<u64>,
    pub(super) health: InformerHealth,
}

#[derive(Debug, Default)]
pub(super) struct InformerCounters {
    pub(super) lists: AtomicU64,
    pub(super) watches: AtomicU64,
    pub(super) decoded: Arc<AtomicU64>,
    pub(super) deltas: AtomicU64,
    pub(super) undecodable: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) panics: AtomicU64,
}

// --- InformerProgress ---

impl Default for InformerProgress {
    fn default() -> Self {
        InformerProgress {
            is_synced: false,
            version: None,
            health: InformerHealth::Starting,
        }
    }
}

// --- InformerCounters ---

impl InformerCounters {
    pub(super) fn stats(&self, name: &str, objects: usize) -> InformerStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        InformerStats {
            name: name.to_owned(),
            objects,
            lists: read(&self.lists),
            watches: read(&self.watches),
            decoded: read(&self.decoded),
            deltas: read(&self.deltas),
            undecodable: read(&self.undecodable),
            failures: read(&self.failures),
            panics: read(&self.panics),
        }
    }
}

pub(super) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

// --- InformerHealth ---

impl fmt::Display for InformerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InformerHealth::Starting => f.write_str("not synced"),
            InformerHealth::Synced => f.write_str("synced"),
            InformerHealth::Failing { error, retry_in, .. } => {
                write!(f, "{error}; retrying in {retry_in:?}")
            }
        }
    }
}
