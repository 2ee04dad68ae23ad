//! Workers: each takes keys from the queue and reconciles them, one after the other.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{task::coop::consume_budget, time::timeout};

use super::{
    Error, ErrorClass, Outcome, Reconciler, Request, error_report::LastError, runner::ControllerShared,
};
use crate::{
    Key,
    metrics::{ControllerMetrics, ReconcileResult, WorkerMetrics},
    panic_message,
    workqueue::{NextItem, WorkItem, WorkQueue},
};

pub(super) struct Worker<R> {
    pub(super) queue: WorkQueue<Key>,
    pub(super) reconciler: Arc<R>,
    pub(super) shared: Arc<ControllerShared>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) counts: Arc<WorkerMetrics>,
}

enum ReconcileFailure {
    Error(Error),
    TimedOut(Duration),
    Panicked(String),
}

// --- Worker ---

impl<R: Reconciler> Worker<R> {
    /// Runs until the queue is closed and empty.
    pub(super) async fn run(self) {
        let mut next = self.queue.next();
        while let Some(item) = next.await {
            next = match self.shared.own_writes.delay(item.key()) {
                None => {
                    if let Some(rate_limiter) = &self.shared.options.rate_limiter {
                        rate_limiter.acquire().await;
                    }
                    self.process(item).await
                }
                Some(delay) => {
                    item.put_back_after(delay);
                    self.queue.next()
                }
            };
            // A reconciler that never waits would not let other tasks run on this thread.
            consume_budget().await;
        }
    }

    // upstream: pkg/controller/replicaset/replica_set.go processNextWorkItem
    async fn process(&self, item: WorkItem<Key>) -> NextItem<Key> {
        let request = Request {
            key: item.key().clone(),
            failures: item.failures(),
            priority: item.priority(),
            own_writes: Arc::clone(&self.shared.own_writes),
        };
        let result = self.reconcile(request).await;
        let queue_time = item.queue_time();
        let (result, processing_time) = match result {
            Ok(Outcome::Done) => {
                let (processing_time, next) = item.done_and_next();
                self.counts
                    .reconciled(ReconcileResult::Success, queue_time, processing_time);
                return next;
            }
            Ok(Outcome::RequeueAfter(after)) => (ReconcileResult::RequeueAfter, item.requeue_after(after)),
            Ok(Outcome::RequeueWithPriority(priority)) => {
                (ReconcileResult::Requeue, item.requeue_with_priority(priority))
            }
            Err(failure) => (ReconcileResult::Error, self.handle_failure(item, &failure)),
        };
        self.counts.reconciled(result, queue_time, processing_time);
        self.queue.next()
    }

    /// Calls the reconciler. Panics and timeouts become failures.
    async fn reconcile(&self, request: Request) -> Result<Outcome, ReconcileFailure> {
        // Unwind safe in the sense that matters: reconcilers are idempotent and start from the current state each time.
        let reconcile = AssertUnwindSafe(async { self.reconciler.reconcile(request).await }).catch_unwind();
        let result = match self.shared.options.timeout {
            None => reconcile.await,
            Some(limit) => {
                let result = timeout(limit, reconcile).await;
                result.map_err(|_| ReconcileFailure::TimedOut(limit))?
            }
        };
        match result {
            Ok(result) => result.map_err(ReconcileFailure::Error),
            Err(panic) => Err(ReconcileFailure::Panicked(panic_message(&*panic).to_owned())),
        }
    }

    /// Requeues, counts and logs a failure. Returns the processing time.
    #[cold]
    fn handle_failure(&self, item: WorkItem<Key>, failure: &ReconcileFailure) -> Duration {
        let key = item.key().clone();
        let processing_time = item.processing_time();
        let (class, message) = match failure {
            ReconcileFailure::Error(error) => (Some(error.class()), error.to_string()),
            ReconcileFailure::TimedOut(limit) => (None, format!("timed out after {limit:?}")),
            ReconcileFailure::Panicked(message) => (None, format!("panicked: {message}")),
        };
        self.metrics.error();
        match failure {
            ReconcileFailure::Error(_) => {}
            ReconcileFailure::TimedOut(_) => self.metrics.timed_out(),
            ReconcileFailure::Panicked(_) => self.metrics.panicked(),
        }
        let controller = self.shared.name.as_str();
        let failures = if class == Some(ErrorClass::Permanent) {
            let failures = item.failures() + 1;
            self.metrics.permanent();
            item.done();
            tracing::error!(controller, %key, error = message, "reconcile failed permanently, waiting for the object to change");
            failures
        } else {
            let min_delay = match failure {
                ReconcileFailure::Error(error) => error.retry_after().unwrap_or_default(),
                _ => Duration::ZERO,
            };
            let report = item.fail_with_min_delay(min_delay);
            let failures = report.failures;
            let retry_after = report.retry_after;
            if report.dropped {
                tracing::error!(controller, %key, failures, error = message, "reconcile failed too often, dropping the key");
            } else if class == Some(ErrorClass::Transient) {
                tracing::info!(controller, %key, failures, ?retry_after, error = message, "reconcile failed with a transient error, retrying");
            } else {
                tracing::error!(controller, %key, failures, ?retry_after, error = message, "reconcile failed, retrying");
            }
            if report.report {
                self.metrics.stuck();
                self.shared.report_repeated_failure(&key, failures, &message);
            }
            failures
        };
        self.shared.errors.push(LastError {
            key,
            class,
            message,
            failures,
            at: self.shared.options.clock.now(),
        });
        processing_time
    }
}
