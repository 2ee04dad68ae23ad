//! The Job controller: runs pods to completion and counts each finished pod exactly once (KEP-2307, tracking with finalizers).
//!
//! ```text
//! snapshot       a job with its pods; whether it failed or succeeded
//!   pods         properties of a pod in its job
//!   indexes      sets of completion indexes
//!   policy       podFailurePolicy and successPolicy
//!   backoff      delay for replacing failed pods
//! manage         which pods to create and delete
//! new_pods       the pods to create
//! track_status   counting finished pods in the status
//! controller     the reconciler
//! orphan_pods    removes finalizers of pods without a job
//! finalizer      the tracking finalizer
//! ```

mod backoff;
mod controller;
mod finalizer;
mod indexes;
mod manage;
mod metrics;
mod new_pods;
mod orphan_pods;
mod pods;
mod policy;
mod snapshot;
mod track_status;

#[cfg(test)]
mod scenario_tests;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use k3_workloads::Pod;
use kubecontroller::{
    Key,
    informer::Delta,
    store::{Index, Store},
    workqueue::{ExponentialBackoff, WorkQueueOptions},
};

use self::{controller::JobController, orphan_pods::OrphanPodController};

use crate::{
    context::{ControllerContext, Task},
    objects::Job,
    resource::JOBS,
};

/// Pod events within this time are handled by one sync.
const QUIET: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_millis(200);

const WORKERS: usize = 5;

// upstream: pkg/controller/job/job_controller.go NewController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let jobs = context.informer::<Job>(&JOBS);
    let pods = context.pods();
    let in_namespace = jobs
        .store()
        .shared_index("namespace", |job| vec![job.metadata.namespace.to_string()]);
    let controller = context
        .controller("job-controller")
        .for_(&jobs)
        .owns(&pods, "batch/Job")
        .watches(&pods, move |delta| adopting_jobs(&in_namespace, delta))
        .debounce(QUIET, MAX_BACKOFF)
        .queue(batch_events)
        .workers(WORKERS)
        .reconciler(JobController::new(context, jobs.clone(), pods.clone()));
    let orphan_pods = OrphanPodController::new(context, jobs.store(), pods.store());
    let of_pods = orphan_pods.clone();
    let of_jobs = orphan_pods.clone();
    let orphan_pods = context
        .controller("job-controller-orphan-pods")
        .watches(&pods, move |delta| of_pods.pods_to_check_after_pod_event(delta))
        .watches(&jobs, move |delta| of_jobs.pods_to_check_after_job_event(delta))
        .queue(batch_events)
        .reconciler(orphan_pods);
    vec![Box::new(controller), Box::new(orphan_pods)]
}

fn batch_events(options: WorkQueueOptions<Key>) -> WorkQueueOptions<Key> {
    let backoff = ExponentialBackoff {
        base: Duration::from_millis(100),
        max: Duration::from_mins(1),
    };
    WorkQueueOptions { backoff, ..options }
}

/// The jobs that may adopt a pod without a controller.
// upstream: pkg/controller/job/job_controller.go getPodJobs
fn adopting_jobs(jobs: &Index<Job>, delta: &Delta<Pod>) -> Vec<Key> {
    let Some(pod) = delta.new().filter(|pod| pod.metadata.controller().is_none()) else {
        return Vec::new();
    };
    let is_as_before = delta
        .old()
        .is_some_and(|old| old.metadata.labels == pod.metadata.labels && old.metadata.controller().is_none());
    if is_as_before {
        return Vec::new();
    }
    let takers = jobs.get(&pod.metadata.namespace).into_iter();
    let takers = takers.filter(|job| {
        let selector = &job.spec.selector;
        !selector.is_empty() && selector.matches(&pod.metadata.labels)
    });
    takers
        .map(|job| Key::new(&job.metadata.namespace, &job.metadata.name))
        .collect()
}

/// The job that controls a pod, if it exists.
fn controlling_job(jobs: &Store<Job>, pod: &Pod) -> Option<Arc<Job>> {
    let owner = pod.metadata.controller()?;
    let job = jobs.get(&Key::new(&pod.metadata.namespace, &owner.name))?;
    (job.metadata.uid == owner.uid).then_some(job)
}
