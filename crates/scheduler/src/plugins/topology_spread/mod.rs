//! Plugin `PodTopologySpread` (KEP-895): spreads matching pods over topology domains.

mod counts;
mod filtering;
mod scoring;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use counts::{SpreadConstraint, SpreadCounts, SpreadKey, SpreadScope};
use filtering::FilterState;
use parking_lot::{Mutex, MutexGuard};
use scoring::ScoreState;

use super::{CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, PreScoreResult, SchedulerPlugin};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    incremental::IncrementalCache,
    object::{Node, Pod, Policy, TopologySpreadConstraint},
    status::{FilterResult, Rejection},
};

const LABEL_HOSTNAME: &str = "kubernetes.io/hostname";
const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug, Default)]
pub(super) struct PodTopologySpread {
    counts: Mutex<IncrementalCache<SpreadCounts>>,
}

/// Counts of matching pods in one scheduling cycle. Simulated nodes share them; each has its own changes.
#[derive(Clone, Debug, Default)]
pub(super) struct SpreadState {
    filter: Option<Arc<FilterState>>,
    score: Option<Arc<ScoreState>>,
    /// The changes by simulated adds and removes, by constraint.
    deltas: Vec<i64>,
}

impl SchedulerPlugin for PodTopologySpread {
    type State = SpreadState;

    fn name(&self) -> &'static str {
        "PodTopologySpread"
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
            ClusterEventKind::NodeDelete,
            ClusterEventKind::AssignedPodAdd,
            ClusterEventKind::AssignedPodUpdate,
            ClusterEventKind::AssignedPodDelete,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go isSchedulableAfterAssignedPodChange, isSchedulableAfterTargetPodChange, isSchedulableAfterNodeChange
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        let rules = required_rules(pod);
        let counts = |other: &Pod| rules.iter().any(|rule| rule.selector.matches(&other.labels));
        let counts_differently = |old: &Pod, new: &Pod| {
            let differs = |rule: &SpreadConstraint| {
                rule.selector.matches(&old.labels) != rule.selector.matches(&new.labels)
            };
            old.labels != new.labels && rules.iter().any(differs)
        };
        let placed = |node: &Node| rules.iter().all(|rule| node.labels.get(&rule.topology).is_some());
        match event {
            ClusterEvent::AssignedPodAdd(other) | ClusterEvent::AssignedPodDelete(other) => {
                other.namespace == pod.namespace && counts(other)
            }
            ClusterEvent::AssignedPodUpdate { old, new } => {
                new.namespace == pod.namespace && counts_differently(old, new)
            }
            ClusterEvent::UnscheduledPodUpdate { old, new } => {
                (old.spec.tolerations != new.spec.tolerations && rules.iter().any(|rule| rule.policy.taints))
                    || counts_differently(old, new)
            }
            ClusterEvent::NodeAdd(node) | ClusterEvent::NodeDelete(node) => placed(node),
            ClusterEvent::NodeUpdate { old, new } => {
                let moved = |rule: &SpreadConstraint| {
                    old.labels.get(&rule.topology) != new.labels.get(&rule.topology)
                };
                placed(old) != placed(new)
                    || (placed(new) && (rules.iter().any(moved) || old.taints != new.taints))
            }
            _ => false,
        }
    }

    /// Counts the pods that the required constraints match.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go PreFilter
    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut SpreadState,
    ) -> Result<PreFilterResult, Rejection> {
        let CycleContext { pod, cluster } = *cycle;
        let rules = required_rules(pod);
        if rules.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        let borrowed = self.counts().take(
            SpreadKey::new(pod, rules, SpreadScope::NodesWithAllLabels),
            cluster,
        );
        state.filter = Some(Arc::new(FilterState::new(pod, borrowed)));
        Ok(PreFilterResult::All)
    }

    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go Filter
    fn filter(&self, _: &CycleContext<'_>, state: &SpreadState, node: &CandidateNode<'_>) -> FilterResult {
        match &state.filter {
            Some(filter) => filter.filter(node.slot, &state.deltas),
            None => Ok(()),
        }
    }

    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go AddPod
    fn add_pod(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut SpreadState,
        added: &Pod,
        node: &CandidateNode<'_>,
    ) {
        state.count(cycle.pod, added, node.slot, 1);
    }

    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go RemovePod
    fn remove_pod(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut SpreadState,
        removed: &Pod,
        node: &CandidateNode<'_>,
    ) {
        state.count(cycle.pod, removed, node.slot, -1);
    }

    /// Counts the pods that the preferred constraints match.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go PreScore
    fn pre_score(
        &self,
        cycle: &CycleContext<'_>,
        state: &mut SpreadState,
        nodes: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        let CycleContext { pod, cluster } = *cycle;
        let rules = preferred_rules(pod, cluster);
        if rules.is_empty() {
            return PreScoreResult::Skip;
        }
        let scope = if pod.spec.spread.is_empty() {
            SpreadScope::AllNodes
        } else {
            SpreadScope::NodesWithAllLabels
        };
        let borrowed = self.counts().take(SpreadKey::new(pod, rules, scope), cluster);
        state.score = Some(Arc::new(ScoreState::new(borrowed, nodes)));
        PreScoreResult::Score
    }

    fn score(&self, _: &CycleContext<'_>, state: &SpreadState, node: &CandidateNode<'_>) -> i64 {
        state.score.as_ref().map_or(0, |score| score.score(node.slot))
    }

    fn normalize_score(&self, state: &SpreadState, nodes: &[CandidateNode<'_>], scores: &mut [i64]) {
        if let Some(score) = &state.score {
            score.normalize(nodes, scores);
        }
    }

    fn end_cycle(&self, state: SpreadState) {
        // No simulation is left, so that nothing shares the counts.
        let score = state.score.and_then(Arc::into_inner).map(|score| score.borrowed);
        let filter = state
            .filter
            .and_then(Arc::into_inner)
            .map(|filter| filter.borrowed);
        for borrowed in score.into_iter().chain(filter) {
            self.counts().put(borrowed);
        }
    }
}

impl PodTopologySpread {
    fn counts(&self) -> MutexGuard<'_, IncrementalCache<SpreadCounts>> {
        self.counts.lock()
    }
}

impl SpreadState {
    fn count(&mut self, pod: &Pod, other: &Pod, slot: usize, by: i64) {
        if let Some(filter) = &self.filter {
            filter.delta(slot, pod, other, by, &mut self.deltas);
        }
    }
}

/// The rules of a pod that must be kept.
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go getConstraints
fn required_rules(pod: &Pod) -> Vec<SpreadConstraint> {
    let required = pod.spec.spread.iter().filter(|spread| spread.must);
    required.map(|spread| spread_constraint(pod, spread)).collect()
}

fn spread_constraint(pod: &Pod, spread: &TopologySpreadConstraint) -> SpreadConstraint {
    SpreadConstraint {
        topology: spread.topology.clone(),
        selector: Arc::new(spread.selector_for(&pod.labels)),
        policy: spread.policy,
        max_skew: spread.max_skew,
        min_domains: spread.min_domains,
    }
}

/// The rules of a pod that would be good to keep. A pod without rules of its own spreads over hosts and zones where it can, together
/// with the other pods of its services and its set.
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go getConstraints
fn preferred_rules(pod: &Pod, cluster: &SchedulerCache) -> Vec<SpreadConstraint> {
    if !pod.spec.spread.is_empty() {
        let preferred = pod.spec.spread.iter().filter(|spread| !spread.must);
        return preferred.map(|spread| spread_constraint(pod, spread)).collect();
    }
    let selector = cluster.default_selectors.selector_of(pod);
    if selector.is_empty() || selector.is_nothing() {
        return Vec::new();
    }
    let default = |topology: &str, max_skew| SpreadConstraint {
        topology: topology.into(),
        selector: selector.clone(),
        policy: Policy {
            affinity: true,
            taints: false,
        },
        max_skew,
        min_domains: 1,
    };
    vec![default(LABEL_HOSTNAME, 3), default(LABEL_ZONE, 5)]
}
