//! What controllers and queues count.

use std::{
    hash::Hash,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use super::histogram::{Histogram, HistogramSnapshot, OF_QUEUES, OF_RECONCILES};
use crate::workqueue::{WorkQueue, WorkQueueStats};

/// The metrics of a controller.
#[derive(Debug, Default)]
pub(crate) struct ControllerMetrics {
    /// A part for each worker: what one counts, no other touches.
    workers: Mutex<Vec<Arc<WorkerMetrics>>>,
    most: AtomicUsize,
    errors: AtomicU64,
    permanent: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    stuck: AtomicU64,
    restarts: AtomicU64,
}

/// What one worker counts. On cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerMetrics {
    results: [AtomicU64; ResultOf::ALL.len()],
    waited: Histogram,
    worked: Histogram,
    took: Histogram,
}

/// How a reconcile ended, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultOf {
    Error,
    Requeue,
    RequeueAfter,
    Success,
}

/// What is shown of a controller.
pub(super) struct MetricsSnapshot {
    pub(super) results: [u64; ResultOf::ALL.len()],
    pub(super) waited: HistogramSnapshot,
    pub(super) worked: HistogramSnapshot,
    pub(super) took: HistogramSnapshot,
    pub(super) most: usize,
    pub(super) errors: u64,
    pub(super) permanent: u64,
    pub(super) panics: u64,
    pub(super) timeouts: u64,
    pub(super) stuck: u64,
    pub(super) restarts: u64,
}

/// The queue that has a name now, and what those before it had counted.
#[derive(Default)]
pub(super) struct QueueCounts {
    adds: u64,
    retries: u64,
    now: Option<Box<dyn Fn() -> QueueNow + Send>>,
}

/// A queue at a moment.
#[derive(Default)]
pub(super) struct QueueNow {
    pub(super) figures: WorkQueueStats,
    /// For how long each of the keys that are worked on is.
    pub(super) running: Vec<Duration>,
}

// --- ControllerMetrics ---

impl ControllerMetrics {
    /// The part of a worker; the same one for the same number.
    pub(crate) fn worker(&self, number: usize) -> Arc<WorkerMetrics> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        while workers.len() <= number {
            workers.push(Arc::default());
        }
        Arc::clone(&workers[number])
    }

    /// So many reconciles may go on at once.
    pub(crate) fn may_run(&self, most: usize) {
        self.most.store(most, Relaxed);
    }

    pub(crate) fn error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// An error that is not tried again.
    pub(crate) fn permanent(&self) {
        self.permanent.fetch_add(1, Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(crate) fn timed_out(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }

    /// A key has failed so often in a row that it was reported.
    pub(crate) fn stuck(&self) {
        self.stuck.fetch_add(1, Relaxed);
    }

    pub(crate) fn restarted(&self) {
        self.restarts.fetch_add(1, Relaxed);
    }

    pub(super) fn snapshot(&self) -> MetricsSnapshot {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = [0; ResultOf::ALL.len()];
        for worker in &*workers {
            for (sum, more) in results.iter_mut().zip(&worker.results) {
                *sum += more.load(Relaxed);
            }
        }
        MetricsSnapshot {
            results,
            waited: Histogram::snapshot(OF_QUEUES, workers.iter().map(|worker| &worker.waited)),
            worked: Histogram::snapshot(OF_QUEUES, workers.iter().map(|worker| &worker.worked)),
            took: Histogram::snapshot(OF_RECONCILES, workers.iter().map(|worker| &worker.took)),
            most: self.most.load(Relaxed),
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
            waited: Histogram::new(OF_QUEUES),
            worked: Histogram::new(OF_QUEUES),
            took: Histogram::new(OF_RECONCILES),
        }
    }
}

impl WorkerMetrics {
    /// A reconcile is over.
    pub(crate) fn reconciled(&self, result: ResultOf, waited: Duration, took: Duration) {
        self.results[result as usize].fetch_add(1, Relaxed);
        self.waited.observe(waited);
        self.worked.observe(took);
        self.took.observe(took);
    }
}

// --- ResultOf ---

impl ResultOf {
    pub(super) const ALL: [ResultOf; 4] = [
        ResultOf::Error,
        ResultOf::Requeue,
        ResultOf::RequeueAfter,
        ResultOf::Success,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            ResultOf::Error => "error",
            ResultOf::Requeue => "requeue",
            ResultOf::RequeueAfter => "requeue_after",
            ResultOf::Success => "success",
        }
    }
}

// --- QueueCounts ---

impl QueueCounts {
    pub(super) fn follow<K: Clone + Eq + Hash + Send + 'static>(&mut self, queue: &WorkQueue<K>) {
        let before = self.now();
        self.adds = before.figures.adds;
        self.retries = before.figures.retries;
        let queue = queue.clone();
        self.now = Some(Box::new(move || QueueNow {
            figures: queue.stats(),
            running: queue.processing().into_iter().map(|(_, since)| since).collect(),
        }));
    }

    /// The queue as it is now, with the counts of those before it.
    pub(super) fn now(&self) -> QueueNow {
        let mut now = self.now.as_ref().map(|now| now()).unwrap_or_default();
        now.figures.adds += self.adds;
        now.figures.retries += self.retries;
        now
    }
}
