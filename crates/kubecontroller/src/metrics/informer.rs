//! Metrics of informers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use k3_metrics::{Histogram, HistogramSnapshot};

use super::buckets::WORKQUEUE_BUCKETS;

/// The metrics of an informer. Clones share them.
#[derive(Clone, Debug)]
pub struct InformerMetrics {
    counts: Arc<InformerCounts>,
}

#[derive(Debug)]
struct InformerCounts {
    lists: AtomicU64,
    took: Histogram,
    watches: AtomicU64,
    failures: AtomicU64,
    events: AtomicU64,
    objects: AtomicU64,
    version: AtomicU64,
    is_synced: AtomicBool,
}

/// The metrics of an informer at a point in time.
pub(super) struct InformerMetricsSnapshot {
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
        let counts = InformerCounts {
            lists: AtomicU64::new(0),
            took: Histogram::new(&WORKQUEUE_BUCKETS),
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
    /// Counts a completed list and its duration.
    pub fn listed(&self, took: Duration) {
        self.counts.lists.fetch_add(1, Relaxed);
        self.counts.took.took(took);
    }

    /// Counts a started watch.
    pub fn watched(&self) {
        self.counts.watches.fetch_add(1, Relaxed);
    }

    /// Counts a failed list or watch.
    pub fn failed(&self) {
        self.counts.failures.fetch_add(1, Relaxed);
    }

    /// Counts a received change.
    pub fn event(&self) {
        self.counts.events.fetch_add(1, Relaxed);
    }

    /// Sets the number of objects in the store.
    pub fn objects(&self, number: usize) {
        self.counts.objects.store(number as u64, Relaxed);
    }

    /// Sets the newest resource version seen.
    pub fn version(&self, version: u64) {
        self.counts.version.store(version, Relaxed);
    }

    /// Sets whether the store is synced, as far as the informer knows.
    pub fn synced(&self, is_synced: bool) {
        self.counts.is_synced.store(is_synced, Relaxed);
    }

    pub(super) fn snapshot(&self) -> InformerMetricsSnapshot {
        let counts = &*self.counts;
        InformerMetricsSnapshot {
            lists: counts.lists.load(Relaxed),
            took: HistogramSnapshot::new(&WORKQUEUE_BUCKETS, [&counts.took]),
            watches: counts.watches.load(Relaxed),
            failures: counts.failures.load(Relaxed),
            events: counts.events.load(Relaxed),
            objects: counts.objects.load(Relaxed),
            version: counts.version.load(Relaxed),
            is_synced: counts.is_synced.load(Relaxed),
        }
    }
}
