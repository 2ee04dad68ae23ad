//! Works on one key after another.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{task::coop::consume_budget, time::timeout};

use super::{Error, ErrorClass, Outcome, Reconciler, Request, error_report::LastError, runner::Shared};
use crate::{
    Key,
    metrics::{ControllerMetrics, ResultOf, WorkerMetrics},
    workqueue::{NextItem, WorkItem, WorkQueue},
};

/// One of the workers of a controller.
pub(super) struct Worker<R> {
    pub(super) queue: WorkQueue<Key>,
    pub(super) reconciler: Arc<R>,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) counts: Arc<WorkerMetrics>,
}

/// Why a reconcile came to nothing.
enum Failed {
    Error(Error),
    TimedOut(Duration),
    Panicked(String),
}

// --- Worker ---

impl<R: Reconciler> Worker<R> {
    /// Works until the queue is closed and has nothing left.
    pub(super) async fn work(self) {
        let mut next = self.queue.next();
        while let Some(job) = next.await {
            next = match self.shared.written.wait(job.key()) {
                None => {
                    if let Some(pace) = &self.shared.settings.pace {
                        pace.turn().await;
                    }
                    self.work_on(job).await
                }
                Some(wait) => {
                    job.put_back_after(wait);
                    self.queue.next()
                }
            };
            // Reconciles that never wait would keep the thread from everybody else.
            consume_budget().await;
        }
    }

    async fn work_on(&self, job: WorkItem<Key>) -> NextItem<Key> {
        let request = Request {
            key: job.key().clone(),
            failures: job.failures(),
            priority: job.priority(),
            written: Arc::clone(&self.shared.written),
        };
        let result = self.attempt(request).await;
        let waited = job.queue_time();
        let (result, took) = match result {
            Ok(Outcome::Done) => {
                let (took, next) = job.done_and_next();
                self.counts.reconciled(ResultOf::Success, waited, took);
                return next;
            }
            Ok(Outcome::RequeueAfter(after)) => (ResultOf::RequeueAfter, job.requeue_after(after)),
            Ok(Outcome::RequeueWithPriority(priority)) => {
                (ResultOf::Requeue, job.requeue_with_priority(priority))
            }
            Err(failed) => (ResultOf::Error, self.fail(job, &failed)),
        };
        self.counts.reconciled(result, waited, took);
        self.queue.next()
    }

    /// Reconciles, whatever happens.
    async fn attempt(&self, request: Request) -> Result<Outcome, Failed> {
        // What a reconciler that panicked leaves behind is its own business: it is asked again with a fresh look at things.
        let reconcile = AssertUnwindSafe(async { self.reconciler.reconcile(request).await }).catch_unwind();
        let result = match self.shared.settings.timeout {
            None => reconcile.await,
            Some(limit) => {
                let result = timeout(limit, reconcile).await;
                result.map_err(|_| Failed::TimedOut(limit))?
            }
        };
        match result {
            Ok(result) => result.map_err(Failed::Error),
            Err(panic) => Err(Failed::Panicked(message_of(&*panic))),
        }
    }

    /// Counts and reports a failure. Gives how long the job was worked on.
    #[cold]
    fn fail(&self, job: WorkItem<Key>, failed: &Failed) -> Duration {
        let (key, took) = (job.key().clone(), job.processing_time());
        let (class, message) = match failed {
            Failed::Error(error) => (Some(error.class()), error.to_string()),
            Failed::TimedOut(limit) => (None, format!("it took longer than {limit:?}")),
            Failed::Panicked(message) => (None, format!("it panicked: {message}")),
        };
        self.metrics.error();
        match failed {
            Failed::Error(_) => {}
            Failed::TimedOut(_) => self.metrics.timed_out(),
            Failed::Panicked(_) => self.metrics.panicked(),
        }
        let controller = self.shared.name.as_str();
        let failures = if class == Some(ErrorClass::Permanent) {
            let failures = job.failures() + 1;
            self.metrics.permanent();
            job.done();
            tracing::error!(controller, %key, error = message, "a reconcile failed, and will until the object changes");
            failures
        } else {
            let wait = match failed {
                Failed::Error(error) => error.retry_after().unwrap_or_default(),
                _ => Duration::ZERO,
            };
            let failure = job.fail_with_min_delay(wait);
            let (failures, retry) = (failure.failures, failure.retry_after);
            if failure.dropped {
                tracing::error!(controller, %key, failures, error = message, "a reconcile failed too often and is given up");
            } else if class == Some(ErrorClass::Transient) {
                tracing::info!(controller, %key, failures, ?retry, error = message, "a reconcile failed for now");
            } else {
                tracing::error!(controller, %key, failures, ?retry, error = message, "a reconcile failed");
            }
            if failure.report {
                self.metrics.stuck();
                self.shared.report(&key, failures, &message);
            }
            failures
        };
        self.shared.errors.push(LastError {
            key,
            class,
            message,
            failures,
            at: self.shared.settings.clock.now(),
        });
        took
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("nobody knows why").to_owned()
}
