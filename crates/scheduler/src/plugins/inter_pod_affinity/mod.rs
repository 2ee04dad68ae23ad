//! Plugin `InterPodAffinity`: pod affinity and anti-affinity.

mod counts;
mod filtering;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use counts::{AffinityCounts, AffinityKey};
use filtering::{InterPodAffinityState, TopologyDelta, delta};
use parking_lot::{Mutex, MutexGuard};

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, PreScoreResult, SchedulerPlugin,
    normalize_score::MAX_NODE_SCORE,
};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    incremental::IncrementalCache,
    number::{to_f64, to_i64},
    object::{AffinityTerm, Node, Pod},
    status::{FilterResult, Rejection},
};

#[derive(Debug, Default)]
pub(super) struct InterPodAffinity {
    counts: Mutex<IncrementalCache<AffinityCounts>>,
}

/// Counts of matching pods in one scheduling cycle. Simulated nodes share them; each has its own changes.
#[derive(Clone, Debug, Default)]
pub(super) struct AffinityState {
    /// `None` if neither the pod nor any assigned pod has affinity terms.
    counts: Option<Arc<InterPodAffinityState>>,
    /// The changes by simulated adds and removes.
    deltas: Vec<TopologyDelta>,
}

impl SchedulerPlugin for InterPodAffinity {
    type State = AffinityState;

    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter, ExtensionPoint::Score]
    }

    fn weight(&self) -> i64 {
        2
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::NodeAdd,
            ClusterEventKind::NodeUpdate,
            ClusterEventKind::AssignedPodAdd,
            ClusterEventKind::AssignedPodUpdate,
            ClusterEventKind::AssignedPodDelete,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/plugin.go isSchedulableAfterAssignedPodChange, isSchedulableAfterTargetPodUpdateLabel
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool {
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

    /// Counts matching pods per topology domain.
    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go PreFilter
    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut AffinityState,
    ) -> Result<PreFilterResult, Rejection> {
        let CycleContext { pod, cluster } = *cycle;
        if !pod.spec.has_pod_affinity && !cluster.any_pods_with_affinity() {
            return Ok(PreFilterResult::Skip);
        }
        let borrowed = self.counts().take(AffinityKey::new(pod), cluster);
        let counts = InterPodAffinityState::new(pod, borrowed, cluster);
        let required =
            !pod.spec.required_affinity_terms.is_empty() || !pod.spec.required_anti_affinity_terms.is_empty();
        let filters = required || counts.is_refused_somewhere();
        state.counts = Some(Arc::new(counts));
        Ok(PreFilterResult::all_if(filters))
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go Filter
    fn filter(
        &self,
        cycle: &CycleContext<'_>,
        state: &AffinityState,
        node: &CandidateNode<'_>,
    ) -> FilterResult {
        match &state.counts {
            Some(counts) => counts.filter(cycle.pod, node.slot, node.node, &state.deltas),
            None => Ok(()),
        }
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go AddPod
    fn add_pod(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut AffinityState,
        added: &Pod,
        node: &CandidateNode<'_>,
    ) {
        delta(node.node, cycle.pod, added, 1, cycle.cluster, &mut state.deltas);
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go RemovePod
    fn remove_pod(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut AffinityState,
        removed: &Pod,
        node: &CandidateNode<'_>,
    ) {
        delta(
            node.node,
            cycle.pod,
            removed,
            -1,
            cycle.cluster,
            &mut state.deltas,
        );
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go PreScore
    fn pre_score(
        &self,
        _: &CycleContext<'_>,
        state: &mut AffinityState,
        _: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        let counts = state.counts.as_ref();
        PreScoreResult::score_if(counts.is_some_and(|counts| counts.borrowed.state.is_scored()))
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go Score
    fn score(&self, _: &CycleContext<'_>, state: &AffinityState, node: &CandidateNode<'_>) -> i64 {
        state.counts.as_ref().map_or(0, |counts| counts.score(node.slot))
    }

    /// Normalizes scores, which may be negative.
    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go NormalizeScore
    fn normalize_score(&self, _: &AffinityState, _: &[CandidateNode<'_>], scores: &mut [i64]) {
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

    fn end_cycle(&self, state: AffinityState) {
        // No simulation is left, so that nothing shares the counts.
        if let Some(counts) = state.counts.and_then(Arc::into_inner) {
            self.counts().put(counts.borrowed);
        }
    }
}

impl InterPodAffinity {
    fn counts(&self) -> MutexGuard<'_, IncrementalCache<AffinityCounts>> {
        self.counts.lock()
    }
}

/// Whether a node moved into a domain that may satisfy affinity, or out of one that violated anti-affinity.
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
