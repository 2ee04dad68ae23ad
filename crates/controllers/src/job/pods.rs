//! Properties of a pod in its job.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use k3_workloads::{Pod, PodPhase};

use super::{indexes::Indexes, policy::FailurePolicyMatch};
use crate::objects::{CompletionMode, FailureAction, Job, PodReplacementPolicy};

/// Finalizer that keeps a pod until it is counted in the status of its job.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Completion index of a pod, as annotation and label.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Failures of the index before this pod.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Failures among them that do not count.
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

// --- Job ---

impl Job {
    /// spec.completions.
    pub(super) fn completions(&self) -> u32 {
        self.spec
            .completions
            .map_or(0, |count| count.max(0).unsigned_abs())
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.spec.completion_mode == CompletionMode::Indexed
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether `managedBy` leaves the job to this controller.
    // upstream: pkg/controller/job/job_controller.go managedByExternalController
    pub(super) fn is_managed_here(&self) -> bool {
        let by = self.spec.managed_by.as_deref();
        by.is_none_or(|by| by == "kubernetes.io/job-controller")
    }

    /// Whether podReplacementPolicy is Failed: terminating pods are not replaced before they have failed.
    // upstream: pkg/controller/job/job_controller.go onlyReplaceFailedPods
    pub(super) fn only_replace_failed_pods(&self) -> bool {
        self.spec.pod_replacement_policy == PodReplacementPolicy::Failed
    }

    /// The completion index of a pod, if it is below spec.completions.
    pub(super) fn completion_index(&self, pod: &Pod) -> Option<u32> {
        index(pod).filter(|index| *index < self.completions())
    }

    /// Whether a pod has failed. A terminating pod counts as failed: its kubelet may never report a final phase.
    // upstream: pkg/controller/job/job_controller.go isPodFailed
    pub(super) fn has_failed(&self, pod: &Pod) -> bool {
        pod.status.phase == PodPhase::Failed
            || !self.only_replace_failed_pods()
                && pod.metadata.is_terminating()
                && pod.status.phase != PodPhase::Succeeded
    }

    /// The podFailurePolicy action for a failed pod.
    pub(super) fn failure_policy_match(&self, pod: &Pod) -> FailurePolicyMatch {
        FailurePolicyMatch::match_pod(self.spec.pod_failure_policy.as_ref(), pod)
    }

    /// Whether a failed pod fails its index (backoffLimitPerIndex or rule FailIndex).
    // upstream: pkg/controller/job/indexed_job_utils.go isIndexFailed
    pub(super) fn is_index_failed(&self, pod: &Pod, limit: i32) -> bool {
        if !self.has_failed(pod) {
            return false;
        }
        let meaning = self.failure_policy_match(pod);
        let spent = i64::from(count(pod, FAILURES)) >= i64::from(limit);
        meaning.action == Some(FailureAction::FailIndex) || meaning.counts() && spent
    }

    /// Active pods to delete, at least so many: first those without an index or with a duplicate one.
    // upstream: pkg/controller/job/job_controller.go activePodsForRemoval; duplicates first as in appendDuplicatedIndexPodsForRemoval
    pub(super) fn active_pods_for_removal(&self, active: &[Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
        let mut terminating = Vec::new();
        let mut left = Vec::new();
        if self.is_indexed() {
            let mut by_index: BTreeMap<u32, Vec<Arc<Pod>>> = BTreeMap::new();
            for pod in active {
                match self.completion_index(pod) {
                    Some(index) => by_index.entry(index).or_default().push(Arc::clone(pod)),
                    None => terminating.push(Arc::clone(pod)),
                }
            }
            for (_, mut pods) in by_index {
                pods.sort_by(|one, other| deletion_order(one, other));
                left.extend(pods.pop());
                terminating.append(&mut pods);
            }
        } else {
            left.extend(active.iter().cloned());
        }
        if terminating.len() < at_least {
            left.sort_by(|one, other| deletion_order(one, other));
            left.truncate(at_least - terminating.len());
            terminating.append(&mut left);
        }
        terminating
    }
}

/// Whether a pod has the tracking finalizer, so that it is not counted yet.
// upstream: pkg/controller/job/tracking_utils.go hasJobTrackingFinalizer
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(FINALIZER)
}

/// The completion index annotation.
// upstream: pkg/controller/job/indexed_job_utils.go getCompletionIndex
pub(super) fn index(pod: &Pod) -> Option<u32> {
    pod.metadata.annotation(INDEX)?.parse().ok()
}

pub(super) fn indexes<'p>(pods: impl IntoIterator<Item = &'p Arc<Pod>>) -> Indexes {
    pods.into_iter().filter_map(|pod| index(pod)).collect()
}

/// A count in an annotation; zero if it cannot be parsed.
pub(super) fn count(pod: &Pod, annotation: &str) -> u32 {
    let count = pod
        .metadata
        .annotation(annotation)
        .and_then(|text| text.parse::<u32>().ok());
    count.filter(|count| i32::try_from(*count).is_ok()).unwrap_or(0)
}

/// Failures of its index before a pod, counted and ignored.
// upstream: pkg/controller/job/indexed_job_utils.go getIndexAbsoluteFailureCount
pub(super) fn index_failure_count(pod: &Pod) -> u32 {
    count(pod, FAILURES) + count(pod, IGNORED_FAILURES)
}

/// Deletion order of two active pods: the less valuable one first.
// upstream: pkg/controller/controller_utils.go ActivePods
fn deletion_order(one: &Pod, other: &Pod) -> Ordering {
    let unbound = |pod: &Pod| pod.spec.node_name.is_empty();
    let cluster = |pod: &Pod| match pod.status.phase {
        PodPhase::Pending => 0,
        PodPhase::Unknown => 1,
        _ => 2,
    };
    let restarts = |pod: &Pod| {
        let status = &pod.status;
        let stay = status.init_container_statuses.iter();
        let stay = stay.filter(|status| pod.is_sidecar(&status.name));
        let max = |restarts: Option<u32>| restarts.unwrap_or(0);
        let regular = status
            .container_statuses
            .iter()
            .map(|status| status.restart_count)
            .max();
        (max(regular), max(stay.map(|status| status.restart_count).max()))
    };
    // Unknown times before known ones, later ones before earlier ones.
    let later_first = |one: Option<_>, other: Option<_>| match (one, other) {
        (Some(one), Some(other)) => Ord::cmp(&other, &one),
        (one, other) => one.is_some().cmp(&other.is_some()),
    };
    unbound(other)
        .cmp(&unbound(one))
        .then_with(|| cluster(one).cmp(&cluster(other)))
        .then_with(|| one.is_ready().cmp(&other.is_ready()))
        .then_with(|| later_first(one.ready_since(), other.ready_since()))
        .then_with(|| restarts(other).cmp(&restarts(one)))
        .then_with(|| later_first(one.metadata.creation_timestamp, other.metadata.creation_timestamp))
}
