//! Runs the pods of jobs until the work is done, and counts each of them once.
//!
//! ```text
//! look       what a job and its pods add up to
//!   pods       what a pod is to its job
//!   indexes    sets of indexes
//!   policy     what failures and successes mean
//!   backoff    when pods that failed are replaced
//! plan       what is to be done about pods
//! making     the pods that are made
//! track      what becomes of the status
//! foreman    does it
//! strays     lets go of pods that no job counts any more
//! tracking   the finalizer
//! ```

mod backoff;
mod figures;
mod foreman;
mod indexes;
mod look;
mod making;
mod plan;
mod pods;
mod policy;
mod strays;
mod track;
mod tracking;

#[cfg(test)]
mod stories;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use kubecontroller::{
    Key,
    informer::Delta,
    store::{Index, Store},
    workqueue::{ExponentialBackoff, WorkQueueOptions},
};

use self::{foreman::Foreman, strays::Strays};
use crate::{
    context::{Context, Task},
    objects::{Job, Pod},
    resource::JOBS,
};

/// What happens to the pods of a job in this time is seen in one look.
const QUIET: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(200);

const WORKERS: usize = 5;

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let (jobs, pods) = (context.informer::<Job>(&JOBS), context.pods());
    let in_namespace = jobs
        .store()
        .shared_index("namespace", |job| vec![job.metadata.namespace.to_string()]);
    let foreman = context
        .controller("job")
        .for_(&jobs)
        .owns(&pods, "batch/Job")
        .watches(&pods, move |delta| takers(&in_namespace, delta))
        .debounce(QUIET, LONGEST)
        .queue(slowly)
        .workers(WORKERS)
        .reconciler(Foreman::new(context, jobs.clone(), pods.clone()));
    let strays = Strays::new(context, jobs.store(), pods.store());
    let (of_pods, of_jobs) = (strays.clone(), strays.clone());
    let strays = context
        .controller("job_orphan_pod")
        .watches(&pods, move |delta| of_pods.in_pods(delta))
        .watches(&jobs, move |delta| of_jobs.in_jobs(delta))
        .queue(slowly)
        .reconciler(strays);
    vec![Box::new(foreman), Box::new(strays)]
}

fn slowly(options: WorkQueueOptions<Key>) -> WorkQueueOptions<Key> {
    let backoff = ExponentialBackoff {
        base: Duration::from_millis(100),
        max: Duration::from_mins(1),
    };
    WorkQueueOptions { backoff, ..options }
}

/// The jobs that may take in a pod that nobody controls.
fn takers(jobs: &Index<Job>, delta: &Delta<Pod>) -> Vec<Key> {
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

/// The job that controls a pod, if it is there.
fn job_of(jobs: &Store<Job>, pod: &Pod) -> Option<Arc<Job>> {
    let owner = pod.metadata.controller()?;
    let job = jobs.get(&Key::new(&pod.metadata.namespace, &owner.name))?;
    (job.metadata.uid == owner.uid).then_some(job)
}
