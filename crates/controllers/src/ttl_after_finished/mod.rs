//! Deletes jobs some time after they have finished, if they ask for it.

mod plan;
#[cfg(test)]
mod tests;

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    metrics::{MetricDesc, Metrics, exponential_buckets},
    store::Store,
};
use serde_json::json;

use self::plan::{late, time_left};
use crate::{
    context::{Context, Task},
    objects::Job,
    resource::JOBS,
    writer::{Place, Writer, is},
};

/// How long jobs stayed after their time was over.
const DELETION_TIME: MetricDesc = MetricDesc::histogram(
    "ttl_after_finished_controller_job_deletion_duration_seconds",
    "The time it took to delete the job since it became eligible for deletion",
    &[],
    &exponential_buckets::<14>(0.1, 2.0),
);

/// Deletes jobs whose time is over.
struct Cleaner {
    writer: Writer,
    jobs: Store<Job>,
    clock: Clock,
    metrics: Metrics,
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let jobs = context.informer::<Job>(&JOBS);
    let cleaner = Cleaner {
        writer: context.writer.clone(),
        jobs: jobs.store().clone(),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
    };
    let clock = context.clock.clone();
    let has_time = move |delta: &Delta<Job>| {
        let new = delta.new();
        new.is_some_and(|job| time_left(job, clock.now()).is_some())
    };
    let runner = context
        .controller("ttl_jobs_to_delete")
        .for_where(&jobs, Predicate::new(has_time))
        .reconciler(cleaner);
    vec![Box::new(runner)]
}

// --- Cleaner ---

impl Reconciler for Cleaner {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(known) = self.jobs.get(key) else {
            return Ok(Outcome::Done);
        };
        if let Some(outcome) = self.wait(&known) {
            return Ok(outcome);
        }
        // Somebody may have given it more time, and the informer not have heard of it.
        let place = Place::new(&JOBS, key.namespace(), key.name());
        let job: Job = match self.writer.get(place).await {
            Err(error) if is(&error, 404) => return Ok(Outcome::Done),
            job => job?,
        };
        if let Some(outcome) = self.wait(&job) {
            return Ok(outcome);
        }
        let metadata = &job.metadata;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        });
        self.writer.delete(place, &options).await?;
        if let Some(late) = late(&job, self.clock.now()) {
            self.metrics.observe(&DELETION_TIME, &[], late.as_secs_f64());
        }
        Ok(Outcome::Done)
    }
}

impl Cleaner {
    /// What to do until the time of a job is over; `None` if it is.
    fn wait(&self, job: &Job) -> Option<Outcome> {
        match time_left(job, self.clock.now()) {
            None => Some(Outcome::Done),
            Some(left) => (!left.is_zero()).then_some(Outcome::RequeueAfter(left)),
        }
    }
}
