//! The TTL-after-finished controller: deletes finished Jobs after ttlSecondsAfterFinished (KEP-592).

mod expiry;
#[cfg(test)]
mod tests;

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    metrics::{MetricDesc, Metrics, exponential_buckets},
    store::Store,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use serde_json::json;

use self::expiry::{expired_since, time_left};
use crate::{
    context::{ControllerContext, Task},
    objects::Job,
    resource::JOBS,
};

/// Delay between expiry and deletion.
const DELETION_TIME: MetricDesc = MetricDesc::histogram(
    "ttl_after_finished_controller_job_deletion_duration_seconds",
    "The time it took to delete the job since it became eligible for deletion",
    &[],
    &exponential_buckets::<14>(0.1, 2.0),
);

// upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go Controller
struct TTLAfterFinishedController {
    writer: ApiWriter,
    jobs: Store<Job>,
    clock: Clock,
    metrics: Metrics,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let jobs = context.informer::<Job>(&JOBS);
    let cleaner = TTLAfterFinishedController {
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
        .controller("ttl-after-finished-controller")
        .for_where(&jobs, Predicate::new(has_time))
        .reconciler(cleaner);
    vec![Box::new(runner)]
}

// --- TTLAfterFinishedController ---

impl Reconciler for TTLAfterFinishedController {
    // upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go processJob
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(known) = self.jobs.get(key) else {
            return Ok(Outcome::Done);
        };
        if let Some(outcome) = self.requeue_until_expired(&known) {
            return Ok(outcome);
        }
        // The TTL may have been extended; the informer may be behind.
        let object_ref = ObjectRef::new(&JOBS, key.namespace(), key.name());
        let job: Job = match self.writer.get(object_ref).await {
            Err(error) if has_status_code(&error, 404) => return Ok(Outcome::Done),
            job => job?,
        };
        if let Some(outcome) = self.requeue_until_expired(&job) {
            return Ok(outcome);
        }
        let metadata = &job.metadata;
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        });
        self.writer.delete(object_ref, &options).await?;
        if let Some(late) = expired_since(&job, self.clock.now()) {
            self.metrics.observe(&DELETION_TIME, &[], late.as_secs_f64());
        }
        Ok(Outcome::Done)
    }
}

impl TTLAfterFinishedController {
    /// What to do until a job expires; `None` if it has expired.
    // upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go processTTL
    fn requeue_until_expired(&self, job: &Job) -> Option<Outcome> {
        match time_left(job, self.clock.now()) {
            None => Some(Outcome::Done),
            Some(left) => (!left.is_zero()).then_some(Outcome::RequeueAfter(left)),
        }
    }
}
