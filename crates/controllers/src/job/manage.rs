//! Decides which pods of a job to create and delete.

use std::{sync::Arc, time::Duration};

use k3_workloads::Pod;

use super::{
    backoff::{BackoffRecord, finish_time},
    pods::{FAILURES, IGNORED_FAILURES, count, index_failure_count, indexes},
    snapshot::JobSnapshot,
};

/// Pods created or deleted per sync, so that large jobs do not delay others.
const MAX_PODS_PER_SYNC: usize = 500;

/// Minimum backoff after a failure.
const MIN_BACKOFF: Duration = Duration::from_secs(1);

/// What to do about the pods of a job.
#[derive(Debug, PartialEq)]
pub(super) enum PodAction {
    Nothing,
    /// Nothing now: the backoff has not expired.
    Wait(Duration),
    /// Delete these, because the job finishes. Their finalizers stay until they are counted.
    JobEnd(Vec<Arc<Pod>>),
    /// Delete these; they are not counted.
    Delete(Vec<Arc<Pod>>),
    /// Create these.
    Create(Vec<PodCreation>),
}

/// A pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCreation {
    /// Its completion index.
    pub index: Option<u32>,
    /// Failures of its index before: counted and ignored ones.
    pub failures: Option<(u32, u32)>,
}

// --- PodAction ---

impl PodAction {
    /// Decides what to do.
    // upstream: pkg/controller/job/job_controller.go manageJob
    pub(super) fn new(snapshot: &JobSnapshot<'_>) -> Self {
        let job = snapshot.job;
        if snapshot.end.is_some() {
            return PodAction::JobEnd(snapshot.active.clone());
        }
        if job.metadata.is_terminating() {
            return PodAction::Nothing;
        }
        let active = snapshot.active.len();
        if job.is_suspended() {
            return PodAction::Delete(snapshot.active.clone());
        }
        let wanted = wanted(snapshot);
        let mut surplus = job.active_pods_for_removal(&snapshot.active, active.saturating_sub(wanted));
        if !surplus.is_empty() {
            surplus.truncate(MAX_PODS_PER_SYNC);
            return PodAction::Delete(surplus);
        }
        let being_deleted = if job.only_replace_failed_pods() {
            usize::try_from(snapshot.terminating).unwrap_or(0)
        } else {
            0
        };
        match wanted.saturating_sub(being_deleted + active) {
            0 => PodAction::Nothing,
            missing => create(snapshot, missing.min(MAX_PODS_PER_SYNC)),
        }
    }
}

/// Desired number of active pods.
// upstream: pkg/controller/job/job_controller.go manageJob
fn wanted(snapshot: &JobSnapshot<'_>) -> usize {
    let spec = &snapshot.job.spec;
    let parallelism = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        // Work queue semantics: once a pod has succeeded no new pods start, but running ones may finish.
        None if snapshot.succeeded > 0 => return snapshot.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions - snapshot.succeeded),
    };
    usize::try_from(wanted).unwrap_or(0)
}

// upstream: pkg/controller/job/job_controller.go getPodCreationInfoForIndependentIndexes
fn create(snapshot: &JobSnapshot<'_>, missing: usize) -> PodAction {
    let job = snapshot.job;
    let each_has_limit = job.spec.backoff_limit_per_index.is_some();
    if !each_has_limit {
        let wait = snapshot.failures.wait(snapshot.now);
        if !wait.is_zero() {
            return PodAction::Wait(wait.max(MIN_BACKOFF));
        }
    }
    if !job.is_indexed() {
        return PodAction::Create(vec![PodCreation::default(); missing]);
    }
    let mut taken = snapshot.done.union(&indexes(&snapshot.active));
    if job.only_replace_failed_pods() {
        let being_deleted = snapshot.pods.iter().filter(|pod| pod.is_terminating());
        taken = taken.union(&indexes(being_deleted));
    }
    if let Some(failed_indexes) = &snapshot.failed_indexes {
        taken = taken.union(failed_indexes);
    }
    let mut pods = Vec::new();
    let mut waits = Vec::new();
    for index in taken.missing(job.completions(), missing) {
        let replaced = snapshot.to_replace.get(&index);
        let wait = replaced.map_or(Duration::ZERO, |pod| {
            let failures = BackoffRecord {
                count: index_failure_count(pod) + 1,
                last: Some(finish_time(pod)),
            };
            failures.wait(snapshot.now)
        });
        if !wait.is_zero() {
            waits.push(wait);
            continue;
        }
        pods.push(PodCreation {
            index: Some(index),
            failures: each_has_limit
                .then(|| replaced.map_or((0, 0), |pod| new_index_failure_counts(snapshot, pod))),
        });
    }
    match (pods.is_empty(), waits.into_iter().min()) {
        (true, Some(wait)) => PodAction::Wait(wait.max(MIN_BACKOFF)),
        (true, None) => PodAction::Nothing,
        (false, _) => PodAction::Create(pods),
    }
}

/// Failures of an index including this pod's.
// upstream: pkg/controller/job/indexed_job_utils.go getNewIndexFailureCounts
fn new_index_failure_counts(snapshot: &JobSnapshot<'_>, pod: &Pod) -> (u32, u32) {
    let counted = count(pod, FAILURES);
    let ignored = count(pod, IGNORED_FAILURES);
    if snapshot.job.failure_policy_match(pod).counts() {
        (counted + 1, ignored)
    } else {
        (counted, ignored + 1)
    }
}
