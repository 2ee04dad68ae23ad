//! Pods that want to be near others, or away from them.

mod counts;
mod filtering;
#[cfg(test)]
mod tests;

pub(super) use counts::{AffinityCounts, AffinityKey};
pub(super) use filtering::{InterPodAffinityState, TopologyDelta, delta};

use super::{framework::PreFilterResult, normalize_score::MAX_NODE_SCORE};
use crate::{
    cache::SchedulerCache,
    cluster_event::ClusterEvent,
    incremental::IncrementalCache,
    number::{to_f64, to_i64},
    object::{AffinityTerm, Node, Pod},
};

/// Sums up which pods are meant, and which mean this one. Nothing when nobody says anything.
pub(super) fn look(
    pod: &Pod,
    cluster: &SchedulerCache,
    folds: &mut IncrementalCache<AffinityCounts>,
) -> Option<InterPodAffinityState> {
    let asked = pod.spec.has_pod_affinity || cluster.any_pods_with_affinity();
    asked.then(|| InterPodAffinityState::new(pod, folds.take(AffinityKey::new(pod), cluster), cluster))
}

/// Whether anything is to be asked of nodes.
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go PreFilter
pub(super) fn pre_filter(pod: &Pod, affinity: Option<&InterPodAffinityState>) -> PreFilterResult {
    let own =
        !pod.spec.required_affinity_terms.is_empty() || !pod.spec.required_anti_affinity_terms.is_empty();
    if own || affinity.is_some_and(InterPodAffinityState::is_refused_somewhere) {
        PreFilterResult::All
    } else {
        PreFilterResult::Skip
    }
}

/// Stretches scores, which may be negative.
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go NormalizeScore
pub(super) fn normalize(scores: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let most = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let share = if most > least {
            to_f64(*score - least) / to_f64(most - least)
        } else {
            0.0
        };
        *score = to_i64(to_f64(MAX_NODE_SCORE) * share);
    }
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go isSchedulableAfterAssignedPodChange, isSchedulableAfterTargetPodUpdateLabel
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool {
    let meant = |term: &AffinityTerm, other: &Pod| {
        term.matches(
            &other.labels,
            &other.namespace,
            cluster.namespaces.get(&other.namespace),
        )
    };
    let near = |other: &Pod| {
        !pod.spec.required_affinity_terms.is_empty()
            && pod
                .spec
                .required_affinity_terms
                .iter()
                .all(|term| meant(term, other))
    };
    let away = |other: &Pod| {
        pod.spec
            .required_anti_affinity_terms
            .iter()
            .any(|term| meant(term, other))
    };
    match event {
        ClusterEvent::AssignedPodAdd(other) => near(other),
        ClusterEvent::AssignedPodUpdate { old, new } => {
            old.labels != new.labels && ((!near(old) && near(new)) || (away(old) && !away(new)))
        }
        ClusterEvent::AssignedPodDelete(other) => {
            away(other)
                || other
                    .spec
                    .required_anti_affinity_terms
                    .iter()
                    .any(|term| meant(term, pod))
        }
        ClusterEvent::UnscheduledPodUpdate { old, new } => old.labels != new.labels,
        ClusterEvent::NodeAdd(node) => {
            !pod.spec.required_anti_affinity_terms.is_empty()
                || pod
                    .spec
                    .required_affinity_terms
                    .iter()
                    .any(|term| term.topology_value(node).is_some())
        }
        ClusterEvent::NodeUpdate { old, new } => moved(pod, old, new),
        _ => false,
    }
}

/// Whether a node got into a place that may do, or out of one that did not.
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go isSchedulableAfterNodeChange
fn moved(pod: &Pod, old: &Node, new: &Node) -> bool {
    let near = |term: &AffinityTerm| {
        term.topology_value(new).is_some() && term.topology_value(old) != term.topology_value(new)
    };
    let away = |term: &AffinityTerm| {
        term.topology_value(old).is_some() && term.topology_value(old) != term.topology_value(new)
    };
    pod.spec.required_affinity_terms.iter().any(near)
        || pod.spec.required_anti_affinity_terms.iter().any(away)
}
