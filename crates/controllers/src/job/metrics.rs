//! Metrics of the Job controller, under upstream's names.

use std::time::Duration;

use k3_workloads::Condition;
use kubecontroller::metrics::{MetricDesc, Metrics, exponential_buckets};

use super::{manage::PodAction, snapshot::JobSnapshot};
use crate::objects::{Job, JobStatus, PodReplacementPolicy};

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

/// The `action` label of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncAction {
    Tracking,
    PodsCreated,
    PodsDeleted,
}

/// Records metrics of jobs.
pub(super) struct JobMetrics {
    metrics: Metrics,
}

// --- SyncAction ---

impl SyncAction {
    pub(super) fn of(action: &PodAction) -> Self {
        match action {
            PodAction::Nothing | PodAction::Wait(_) => SyncAction::Tracking,
            PodAction::JobEnd(_) | PodAction::Delete(_) => SyncAction::PodsDeleted,
            PodAction::Create(_) => SyncAction::PodsCreated,
        }
    }
}

// --- JobMetrics ---

impl JobMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        JobMetrics {
            metrics: metrics.clone(),
        }
    }

    /// Records a sync of a job.
    // upstream: pkg/controller/job/job_controller.go syncJob
    pub(super) fn record_sync<T, E>(
        &self,
        job: &Job,
        action_label: SyncAction,
        outcome: &Result<T, E>,
        took: Duration,
    ) {
        let action = match action_label {
            SyncAction::Tracking => "tracking",
            SyncAction::PodsCreated => "pods_created",
            SyncAction::PodsDeleted => "pods_deleted",
        };
        let outcome = outcome.as_ref().map_or("error", |_| "success");
        let labels = [action, mode(job), outcome];
        self.metrics.increment(&SYNCS, &labels, 1);
        self.metrics.observe(&SYNC_TIME, &labels, took.as_secs_f64());
    }

    /// Records that a pod was created, or could not be.
    // upstream: pkg/controller/job/job_controller.go recordJobPodsCreationTotal
    pub(super) fn record_pod_creation<T, E>(&self, snapshot: &JobSnapshot<'_>, created: &Result<T, E>) {
        let reason = match snapshot.job.spec.pod_replacement_policy {
            _ if snapshot.failed == 0 => "new",
            PodReplacementPolicy::Failed => "recreate_failed",
            PodReplacementPolicy::TerminatingOrFailed => "recreate_terminating_or_failed",
        };
        let result = created.as_ref().map_or("failed", |_| "succeeded");
        self.metrics.increment(&PODS_CREATED, &[reason, result], 1);
    }

    /// Records what a status update changed.
    // upstream: pkg/controller/job/job_controller.go recordJobPodFinished, recordJobFinished
    pub(super) fn wrote(&self, job: &Job, old: &JobStatus, new: &JobStatus) {
        for (before, after, result) in [
            (old.succeeded, new.succeeded, "succeeded"),
            (old.failed, new.failed, "failed"),
        ] {
            if let Ok(more @ 1..) = u64::try_from(after - before) {
                let labels = [mode(job), result];
                self.metrics.increment(&PODS_FINISHED, &labels, more);
            }
        }
        for (kind, result) in [("Complete", "succeeded"), ("Failed", "failed")] {
            let is_new = Condition::holds(&new.conditions, kind) && !Condition::holds(&old.conditions, kind);
            if let Some(condition) = Condition::find(&new.conditions, kind).filter(|_| is_new) {
                let labels = [mode(job), &*condition.reason, result];
                self.metrics.increment(&FINISHED, &labels, 1);
            }
        }
    }
}

fn mode(job: &Job) -> &'static str {
    if job.is_indexed() { "Indexed" } else { "NonIndexed" }
}
