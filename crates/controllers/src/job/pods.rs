//! What the pods of a job are to it.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use super::{indexes::Indexes, policy::Meaning};
use crate::objects::{CompletionMode, FailureAction, Job, Pod, PodPhase, PodReplacementPolicy};

/// Holds a pod back until its end is in the counts of its job.
pub(super) const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod, as annotation and label.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How many pods of the index failed before this one.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// How many of them did not count.
pub(super) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

// --- Job ---

impl Job {
    /// How many pods are to succeed.
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

    /// Whether it is the business of the built-in controller.
    pub(super) fn is_managed_here(&self) -> bool {
        let by = self.spec.managed_by.as_deref();
        by.is_none_or(|by| by == "kubernetes.io/job-controller")
    }

    /// Whether pods are replaced only when they have failed, not already when they are going.
    pub(super) fn waits_for_failure(&self) -> bool {
        self.spec.pod_replacement_policy == PodReplacementPolicy::Failed
    }

    /// The index of a pod, if it is one of the job's.
    pub(super) fn index_of(&self, pod: &Pod) -> Option<u32> {
        index(pod).filter(|index| *index < self.completions())
    }

    /// Whether a pod of it has failed. One that is going counts, for it may never come to say how it ended.
    pub(super) fn has_failed(&self, pod: &Pod) -> bool {
        pod.status.phase == PodPhase::Failed
            || !self.waits_for_failure() && pod.metadata.is_going() && pod.status.phase != PodPhase::Succeeded
    }

    /// What the failure of a pod of it means.
    pub(super) fn meaning_of(&self, pod: &Pod) -> Meaning {
        Meaning::of(self.spec.pod_failure_policy.as_ref(), pod)
    }

    /// Whether the failure of a pod is that of its index.
    pub(super) fn fails_index(&self, pod: &Pod, limit: i32) -> bool {
        if !self.has_failed(pod) {
            return false;
        }
        let meaning = self.meaning_of(pod);
        let spent = i64::from(count(pod, FAILURES)) >= i64::from(limit);
        meaning.action == Some(FailureAction::FailIndex) || meaning.counts() && spent
    }

    /// Which active pods go when so many have to: first those without an index or with one that another has.
    pub(super) fn surplus(&self, active: &[Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
        let mut going = Vec::new();
        let mut left = Vec::new();
        if self.is_indexed() {
            let mut by_index: BTreeMap<u32, Vec<Arc<Pod>>> = BTreeMap::new();
            for pod in active {
                match self.index_of(pod) {
                    Some(index) => by_index.entry(index).or_default().push(Arc::clone(pod)),
                    None => going.push(Arc::clone(pod)),
                }
            }
            for (_, mut pods) in by_index {
                pods.sort_by(|one, other| rank(one, other));
                left.extend(pods.pop());
                going.append(&mut pods);
            }
        } else {
            left.extend(active.iter().cloned());
        }
        if going.len() < at_least {
            left.sort_by(|one, other| rank(one, other));
            left.truncate(at_least - going.len());
            going.append(&mut left);
        }
        going
    }
}

/// Whether the end of a pod is not in the counts of its job yet.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(FINALIZER)
}

/// The index that a pod says it has.
pub(super) fn index(pod: &Pod) -> Option<u32> {
    pod.metadata.annotation(INDEX)?.parse().ok()
}

/// The indexes of pods.
pub(super) fn indexes<'p>(pods: impl IntoIterator<Item = &'p Arc<Pod>>) -> Indexes {
    pods.into_iter().filter_map(|pod| index(pod)).collect()
}

/// A count that a pod carries; nothing if it cannot be read.
pub(super) fn count(pod: &Pod, annotation: &str) -> u32 {
    let count = pod
        .metadata
        .annotation(annotation)
        .and_then(|text| text.parse::<u32>().ok());
    count.filter(|count| i32::try_from(*count).is_ok()).unwrap_or(0)
}

/// How many pods of its index failed before it, whatever that meant.
pub(super) fn failures_before(pod: &Pod) -> u32 {
    count(pod, FAILURES) + count(pod, IGNORED_FAILURES)
}

/// Which of two active pods is less of a loss: that comes first.
fn rank(one: &Pod, other: &Pod) -> Ordering {
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
        let most = |restarts: Option<u32>| restarts.unwrap_or(0);
        let regular = status
            .container_statuses
            .iter()
            .map(|status| status.restart_count)
            .max();
        (most(regular), most(stay.map(|status| status.restart_count).max()))
    };
    // Times that are not known come before those that are, later ones before earlier ones.
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
