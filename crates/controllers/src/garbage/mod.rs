//! The garbage collector: what is owned goes with its owners.
//!
//! ```text
//! monitors    informers of all kinds that can be deleted
//! graph       who owns whom, and so which objects to look at
//! collector   looks at them, and does what is to be done
//! verdict     what that is
//! absent      owners that are known to be gone
//! dependent   what is kept of an object
//! ```

mod absent;
mod collector;
mod dependent;
mod graph;
mod monitors;
mod verdict;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use kubecontroller::{
    events::EventRecorder,
    informer::{Informer, SharedInformerFactory},
    manager::{BoxError, Runnable, Stop},
    metrics::{MetricDesc, Metrics},
    workqueue::{ExponentialBackoff, WorkQueue, WorkQueueOptions},
};
use tokio::task::JoinSet;

pub(crate) use self::dependent::Dependent;
use self::{collector::Collector, graph::Work, monitors::Monitors};
use crate::{
    context::{Context, Task},
    discovery::{Definition, Kinds},
    resource::CUSTOM_RESOURCE_DEFINITIONS,
    writer::Writer,
};

/// How many objects are looked at, at once.
const WORKERS: usize = 20;

/// How often it could not be found out which kinds there are.
const SYNC_ERRORS: MetricDesc = MetricDesc::counter(
    "garbagecollector_controller_resources_sync_error_total",
    "Number of garbage collector resources sync errors",
    &[],
);

/// The garbage collector.
struct GarbageCollector {
    metrics: Metrics,
    writer: Writer,
    recorder: EventRecorder,
    informers: SharedInformerFactory,
    definitions: Informer<Definition>,
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    vec![Box::new(GarbageCollector {
        metrics: context.metrics.clone(),
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        informers: context.informers.clone(),
        definitions: context.informer(&CUSTOM_RESOURCE_DEFINITIONS),
    })]
}

// --- GarbageCollector ---

impl Runnable for GarbageCollector {
    fn name(&self) -> &'static str {
        "garbage-collector"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            let options = WorkQueueOptions {
                backoff: ExponentialBackoff {
                    max: Duration::from_mins(1),
                    ..ExponentialBackoff::default()
                },
                bucket: None,
                ..WorkQueueOptions::default()
            };
            let queue = WorkQueue::new(options);
            let collector = Arc::new(Collector::new(self.writer.clone(), self.recorder.clone()));
            let mut monitors = Monitors::new(self.informers.clone(), Arc::clone(&collector), queue.clone());
            let mut workers = JoinSet::new();
            for _ in 0..WORKERS {
                workers.spawn(work(Arc::clone(&collector), queue.clone(), monitors.complete()));
            }
            let watched = stop.unless_stopped(self.watch_kinds(&mut monitors)).await;
            queue.close();
            if stop.until_expired(workers.join_all()).await.is_none() {
                tracing::debug!("some objects were not looked at to the end");
            }
            watched.unwrap_or(Ok(()))
        }
        .boxed()
    }
}

impl GarbageCollector {
    /// Follows the kinds as they come and go.
    async fn watch_kinds(&self, monitors: &mut Monitors) -> Result<(), BoxError> {
        let mut kinds = Kinds::new(&self.writer, &self.definitions).await;
        loop {
            let discovered = match kinds.next().await {
                Ok(Some(discovered)) => discovered,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.metrics.increment(&SYNC_ERRORS, &[], 1);
                    return Err(error.into());
                }
            };
            if !discovered.failed.is_empty() {
                self.metrics.increment(&SYNC_ERRORS, &[], 1);
            }
            monitors.sync(&discovered).await;
        }
    }
}

async fn work(
    collector: Arc<Collector>,
    queue: WorkQueue<Work>,
    mut complete: tokio::sync::watch::Receiver<bool>,
) {
    while let Some(job) = queue.next().await {
        if complete.wait_for(|complete| *complete).await.is_err() {
            return;
        }
        match collector.work(job.key()).await {
            Ok(more) => {
                job.done();
                for work in more {
                    queue.add(work);
                }
            }
            Err(problem) => {
                tracing::debug!(work = ?job.key(), %problem, "an object could not be looked at; it will be again");
                job.fail();
            }
        }
    }
}
