//! The garbage collector: cascading deletion of dependents whose owners are deleted (background, foreground and orphan deletion).
//!
//! ```text
//! monitors             informers for all deletable resources
//! graph                owners and dependents; selects objects to look at
//! collector            attemptToDelete, attemptToOrphan
//! classify             decides what happens to an object
//! absent_owner_cache   owners that do not exist
//! dependent            the metadata that is kept of an object
//! ```

mod absent_owner_cache;
mod classify;
mod collector;
mod dependent;
mod graph;
mod monitors;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use kubecontroller::{
    Backoff,
    events::EventRecorder,
    informer::{Informer, SharedInformerFactory},
    manager::{BoxError, Runnable, Stop},
    metrics::{MetricDesc, Metrics},
    workqueue::{WorkQueue, WorkQueueOptions},
    writer::ApiWriter,
};
use tokio::task::JoinSet;

pub(crate) use self::dependent::Dependent;
use self::{collector::WorkProcessor, graph::GraphWorkItem, monitors::Monitors};
use crate::{
    context::{ControllerContext, Task},
    discovery::{CustomResourceDefinition, ResourceDiscovery},
    resource::CUSTOM_RESOURCE_DEFINITIONS,
};

/// Objects processed concurrently.
const WORKERS: usize = 20;

/// Failed discovery attempts.
const SYNC_ERRORS: MetricDesc = MetricDesc::counter(
    "garbagecollector_controller_resources_sync_error_total",
    "Number of garbage collector resources sync errors",
    &[],
);

// upstream: pkg/controller/garbagecollector/garbagecollector.go GarbageCollector, NewGarbageCollector
struct GarbageCollector {
    metrics: Metrics,
    writer: ApiWriter,
    recorder: EventRecorder,
    informers: SharedInformerFactory,
    definitions: Informer<CustomResourceDefinition>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
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
        "garbage-collector-controller"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            let options = WorkQueueOptions {
                backoff: Backoff::exponential(Duration::from_millis(5), Duration::from_mins(1)),
                bucket: None,
                ..WorkQueueOptions::default()
            };
            let queue = WorkQueue::new(options);
            let collector = Arc::new(WorkProcessor::new(self.writer.clone(), self.recorder.clone()));
            let mut monitors = Monitors::new(self.informers.clone(), Arc::clone(&collector), queue.clone());
            let mut workers = JoinSet::new();
            for _ in 0..WORKERS {
                workers.spawn(process(Arc::clone(&collector), queue.clone(), monitors.synced()));
            }
            let watched = stop.unless_stopped(self.sync_monitors(&mut monitors)).await;
            queue.close();
            if stop.until_expired(workers.join_all()).await.is_none() {
                tracing::debug!("garbage collector stopped with unprocessed work items");
            }
            watched.unwrap_or(Ok(()))
        }
        .boxed()
    }
}

impl GarbageCollector {
    /// Follows resources as they are added and removed.
    // upstream: pkg/controller/garbagecollector/garbagecollector.go Sync, GetDeletableResources
    async fn sync_monitors(&self, monitors: &mut Monitors) -> Result<(), BoxError> {
        let mut kinds = ResourceDiscovery::new(&self.writer, &self.definitions).await;
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

async fn process(
    collector: Arc<WorkProcessor>,
    queue: WorkQueue<GraphWorkItem>,
    mut synced: tokio::sync::watch::Receiver<bool>,
) {
    while let Some(job) = queue.next().await {
        if synced.wait_for(|synced| *synced).await.is_err() {
            return;
        }
        match collector.process(job.key()).await {
            Ok(more) => {
                job.done();
                for work in more {
                    queue.add(work);
                }
            }
            Err(problem) => {
                tracing::debug!(work = ?job.key(), %problem, "failed to process work item; it is retried");
                job.fail();
            }
        }
    }
}
