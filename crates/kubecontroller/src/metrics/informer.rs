//! What an informer counts.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::histogram::{Histogram, HistogramSnapshot, OF_QUEUES};

/// The metrics of an informer. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Counts {
    lists: AtomicU64,
    took: Histogram,
    watches: AtomicU64,
    failures: AtomicU64,
    events: AtomicU64,
    objects: AtomicU64,
    version: AtomicU64,
    is_synced: AtomicBool,
}

/// What is shown of them.
pub(super) struct MetricsSnapshot {
    pub(super) lists: u64,
    pub(super) took: HistogramSnapshot,
    pub(super) watches: u64,
    pub(super) failures: u64,
    pub(super) events: u64,
    pub(super) objects: u64,
    pub(super) version: u64,
    pub(super) is_synced: bool,
}

// --- InformerMetrics ---

impl Default for InformerMetrics {
    fn default() -> Self {
        let counts = Counts {
            lists: AtomicU64::new(0),
            took: Histogram::new(OF_QUEUES),
            watches: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            events: AtomicU64::new(0),
            objects: AtomicU64::new(0),
            version: AtomicU64::new(0),
            is_synced: AtomicBool::new(false),
        };
        InformerMetrics {
            counts: Arc::new(counts),
        }
    }
}

impl InformerMetrics {
    /// A list was read to its end.
    pub fn listed(&self, took: Duration) {
        self.counts.lists.fetch_add(1, Relaxed);
        self.counts.took.observe(took);
    }

    /// A watch was begun.
    pub fn watched(&self) {
        self.counts.watches.fetch_add(1, Relaxed);
    }

    /// A list or a watch failed.
    pub fn failed(&self) {
        self.counts.failures.fetch_add(1, Relaxed);
    }

    /// A change came.
    pub fn event(&self) {
        self.counts.events.fetch_add(1, Relaxed);
    }

    /// So many objects are kept.
    pub fn objects(&self, number: usize) {
        self.counts.objects.store(number as u64, Relaxed);
    }

    /// The newest version that was seen.
    pub fn version(&self, version: u64) {
        self.counts.version.store(version, Relaxed);
    }

    /// Whether what is kept is what there is, as far as anyone can tell.
    pub fn synced(&self, is_synced: bool) {
        self.counts.is_synced.store(is_synced, Relaxed);
    }

    pub(super) fn snapshot(&self) -> MetricsSnapshot {
        let counts = &*self.counts;
        MetricsSnapshot {
            lists: counts.lists.load(Relaxed),
            took: Histogram::snapshot(OF_QUEUES, [&counts.took].into_iter()),
            watches: counts.watches.load(Relaxed),
            failures: counts.failures.load(Relaxed),
            events: counts.events.load(Relaxed),
            objects: counts.objects.load(Relaxed),
            version: counts.version.load(Relaxed),
            is_synced: counts.is_synced.load(Relaxed),
        }
    }
}
