//! What is counted of jobs, under upstream's names.

use std::time::Duration;

use kubecontroller::metrics::{MetricDesc, Metrics, exponential_buckets};

use super::{look::Look, plan::Action};
use crate::objects::{Condition, Job, JobStatus, Replacement};

const SYNCS: MetricDesc = MetricDesc::counter(
    "job_controller_job_syncs_total",
    "The number of job syncs",
    &["action", "completion_mode", "result"],
);
const SYNC_TIME: MetricDesc = MetricDesc::histogram(
    "job_controller_job_sync_duration_seconds",
    "The time it took to sync a job",
    &["action", "completion_mode", "result"],
    &exponential_buckets::<15>(0.004, 2.0),
);
const FINISHED: MetricDesc = MetricDesc::counter(
    "job_controller_jobs_finished_total",
    "The number of finished jobs",
    &["completion_mode", "reason", "result"],
);
const PODS_FINISHED: MetricDesc = MetricDesc::counter(
    "job_controller_job_pods_finished_total",
    "The number of finished Pods that are fully tracked",
    &["completion_mode", "result"],
);
const PODS_CREATED: MetricDesc = MetricDesc::counter(
    "job_controller_job_pods_creation_total",
    "The number of Pods created by the Job controller labelled with a reason for the Pod creation.",
    &["reason", "status"],
);

/// What a look at a job came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Tracking,
    PodsCreated,
    PodsDeleted,
}

/// Counts what is done about jobs.
pub(super) struct Figures {
    metrics: Metrics,
}

// --- Came ---

impl Came {
    pub(super) fn of(action: &Action) -> Self {
        match action {
            Action::Nothing | Action::Wait(_) => Came::Tracking,
            Action::End(_) | Action::Delete(_) => Came::PodsDeleted,
            Action::Create(_) => Came::PodsCreated,
        }
    }
}

// --- Figures ---

impl Figures {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Figures {
            metrics: metrics.clone(),
        }
    }

    /// A job was looked at.
    pub(super) fn looked(&self, job: &Job, came: Came, is_well: bool, took: Duration) {
        let action = match came {
            Came::Tracking => "tracking",
            Came::PodsCreated => "pods_created",
            Came::PodsDeleted => "pods_deleted",
        };
        let labels = [action, mode(job), if is_well { "success" } else { "error" }];
        self.metrics.increment(&SYNCS, &labels, 1);
        self.metrics.observe(&SYNC_TIME, &labels, took.as_secs_f64());
    }

    /// A pod was made for a job, or could not be.
    pub(super) fn created(&self, look: &Look<'_>, is_well: bool) {
        let reason = match look.job.spec.pod_replacement_policy {
            _ if look.failed == 0 => "new",
            Replacement::Failed => "recreate_failed",
            Replacement::TerminatingOrFailed => "recreate_terminating_or_failed",
        };
        self.metrics
            .increment(&PODS_CREATED, &[reason, result(is_well)], 1);
    }

    /// The status of a job was written.
    pub(super) fn wrote(&self, job: &Job, old: &JobStatus, new: &JobStatus) {
        for (before, after, is_well) in [
            (old.succeeded, new.succeeded, true),
            (old.failed, new.failed, false),
        ] {
            if let Ok(more @ 1..) = u64::try_from(after - before) {
                let labels = [mode(job), result(is_well)];
                self.metrics.increment(&PODS_FINISHED, &labels, more);
            }
        }
        for (kind, is_well) in [("Complete", true), ("Failed", false)] {
            let is_new = Condition::holds(&new.conditions, kind) && !Condition::holds(&old.conditions, kind);
            if let Some(condition) = Condition::find(&new.conditions, kind).filter(|_| is_new) {
                let labels = [mode(job), &*condition.reason, result(is_well)];
                self.metrics.increment(&FINISHED, &labels, 1);
            }
        }
    }
}

fn mode(job: &Job) -> &'static str {
    if job.is_indexed() { "Indexed" } else { "NonIndexed" }
}

fn result(is_well: bool) -> &'static str {
    if is_well { "succeeded" } else { "failed" }
}
