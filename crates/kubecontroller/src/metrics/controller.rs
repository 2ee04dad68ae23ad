//! Metrics of controllers and work queues.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use k3_metrics::{Histogram, HistogramSnapshot};
use parking_lot::Mutex;

use super::buckets::{RECONCILE_BUCKETS, WORKQUEUE_BUCKETS};
use crate::workqueue::{WorkQueue, WorkQueueStats};

/// The metrics of a controller.
#[derive(Debug, Default)]
pub(crate) struct ControllerMetrics {
    /// Per worker, so that workers do not contend for cache lines.
    workers: Mutex<Vec<Arc<WorkerMetrics>>>,
    max_concurrent: AtomicUsize,
    errors: AtomicU64,
    permanent: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    stuck: AtomicU64,
    restarts: AtomicU64,
}

/// The metrics of one worker, aligned to avoid false sharing with other workers.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerMetrics {
    results: [AtomicU64; ReconcileResult::ALL.len()],
    waited: Histogram,
    worked: Histogram,
    took: Histogram,
}

/// The result of a reconcile, as the `result` label of `controller_runtime_reconcile_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileResult {
    Error,
    Requeue,
    RequeueAfter,
    Success,
}

/// The metrics of a controller at a point in time.
pub(super) struct ControllerMetricsSnapshot {
    pub(super) results: [u64; ReconcileResult::ALL.len()],
    pub(super) waited: HistogramSnapshot,
    pub(super) worked: HistogramSnapshot,
    pub(super) took: HistogramSnapshot,
    pub(super) max_concurrent: usize,
    pub(super) errors: u64,
    pub(super) permanent: u64,
    pub(super) panics: u64,
    pub(super) timeouts: u64,
    pub(super) stuck: u64,
    pub(super) restarts: u64,
}

/// The metrics of the queues with one name: the current queue, and the counters of its predecessors.
#[derive(Default)]
pub(super) struct QueueCounts {
    adds: u64,
    retries: u64,
    now: Option<Box<dyn Fn() -> QueueSnapshot + Send>>,
}

/// The metrics of a queue at a point in time.
#[derive(Default)]
pub(super) struct QueueSnapshot {
    pub(super) stats: WorkQueueStats,
    /// For how long each running key has been processed.
    pub(super) running: Vec<Duration>,
}

// --- ControllerMetrics ---

impl ControllerMetrics {
    /// The metrics of a worker, by number.
    pub(crate) fn worker(&self, number: usize) -> Arc<WorkerMetrics> {
        let mut workers = self.workers.lock();
        while workers.len() <= number {
            workers.push(Arc::default());
        }
        Arc::clone(&workers[number])
    }

    /// Sets the number of workers.
    pub(crate) fn set_max_concurrent(&self, max_concurrent: usize) {
        self.max_concurrent.store(max_concurrent, Relaxed);
    }

    pub(crate) fn error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// Counts an error that is not retried.
    pub(crate) fn permanent(&self) {
        self.permanent.fetch_add(1, Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(crate) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }

    /// Counts a key that was reported because it failed many times in a row.
    pub(crate) fn stuck(&self) {
        self.stuck.fetch_add(1, Relaxed);
    }

    pub(crate) fn restarted(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    pub(super) fn snapshot(&self) -> ControllerMetricsSnapshot {
        let workers = self.workers.lock();
        let mut results = [0; ReconcileResult::ALL.len()];
        for worker in &*workers {
            for (sum, more) in results.iter_mut().zip(&worker.results) {
                *sum += more.load(Relaxed);
            }
        }
        ControllerMetricsSnapshot {
            results,
            waited: HistogramSnapshot::new(&WORKQUEUE_BUCKETS, workers.iter().map(|worker| &worker.waited)),
            worked: HistogramSnapshot::new(&WORKQUEUE_BUCKETS, workers.iter().map(|worker| &worker.worked)),
            took: HistogramSnapshot::new(&RECONCILE_BUCKETS, workers.iter().map(|worker| &worker.took)),
            max_concurrent: self.max_concurrent.load(Relaxed),
            errors: self.errors.load(Relaxed),
            permanent: self.permanent.load(Relaxed),
            panics: self.panics.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            stuck: self.stuck.load(Relaxed),
            restarts: self.restarts.load(Relaxed),
        }
    }
}

// --- WorkerMetrics ---

impl Default for WorkerMetrics {
    fn default() -> Self {
        WorkerMetrics {
            results: Default::default(),
            waited: Histogram::new(&WORKQUEUE_BUCKETS),
            worked: Histogram::new(&WORKQUEUE_BUCKETS),
            took: Histogram::new(&RECONCILE_BUCKETS),
        }
    }
}

impl WorkerMetrics {
    /// Counts a completed reconcile.
    pub(crate) fn reconciled(&self, result: ReconcileResult, waited: Duration, took: Duration) {
        self.results[result as usize].fetch_add(1, Relaxed);
        self.waited.took(waited);
        self.worked.took(took);
        self.took.took(took);
    }
}

// --- ReconcileResult ---

impl ReconcileResult {
    pub(super) const ALL: [ReconcileResult; 4] = [
        ReconcileResult::Error,
        ReconcileResult::Requeue,
        ReconcileResult::RequeueAfter,
        ReconcileResult::Success,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            ReconcileResult::Error => "error",
            ReconcileResult::Requeue => "requeue",
            ReconcileResult::RequeueAfter => "requeue_after",
            ReconcileResult::Success => "success",
        }
    }
}

// --- QueueCounts ---

impl QueueCounts {
    pub(super) fn follow<K: Clone + Eq + Hash + Send + 'static>(&mut self, queue: &WorkQueue<K>) {
        let before = self.now();
        self.adds = before.stats.adds;
        self.retries = before.stats.retries;
        let queue = queue.clone();
        self.now = Some(Box::new(move || QueueSnapshot {
            stats: queue.stats(),
            running: queue.processing().into_iter().map(|(_, since)| since).collect(),
        }));
    }

    /// The current metrics, including the counters of earlier queues.
    pub(super) fn now(&self) -> QueueSnapshot {
        let mut now = self.now.as_ref().map(|now| now()).unwrap_or_default();
        now.stats.adds += self.adds;
        now.stats.retries += self.retries;
        now
    }
}
