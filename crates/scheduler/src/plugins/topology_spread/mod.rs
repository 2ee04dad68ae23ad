//! Pods of a kind spread evenly over places.

mod counts;
mod filtering;
mod scoring;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use counts::{SpreadConstraint, SpreadCounts, SpreadKey};
pub(super) use filtering::FilterState;
pub(super) use scoring::ScoreState;

use super::{Plugin, framework::PreFilterResult};
use crate::{
    cache::SchedulerCache,
    cluster_event::ClusterEvent,
    incremental::IncrementalCache,
    object::{Node, Pod, Policy},
    selector::Selector,
};

const LABEL_HOSTNAME: &str = "kubernetes.io/hostname";
const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

/// The rules of a pod that must be kept, or those that would be good to keep. A pod without rules of its own spreads
/// over hosts and zones where it can, together with the other pods of its services and its set.
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go getConstraints
fn rules(pod: &Pod, must: bool, cluster: &SchedulerCache) -> Vec<SpreadConstraint> {
    if !pod.spec.spread.is_empty() {
        let own = pod.spec.spread.iter().filter(|spread| spread.must == must);
        return own
            .map(|spread| SpreadConstraint {
                topology: spread.topology.clone(),
                selector: Arc::new(spread.selector_for(&pod.labels)),
                policy: spread.policy,
                max_skew: spread.max_skew,
                min_domains: spread.min_domains,
            })
            .collect();
    }
    if must {
        return Vec::new();
    }
    let selector = cluster.default_selectors.selector_of(pod);
    if selector.is_empty() || *selector == Selector::Nothing {
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

/// Sums up what the rules that must be kept are about.
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go PreFilter
pub(super) fn pre_filter(
    pod: &Pod,
    cluster: &SchedulerCache,
    folds: &mut IncrementalCache<SpreadCounts>,
) -> (PreFilterResult, Option<FilterState>) {
    let rules = rules(pod, true, cluster);
    if rules.is_empty() {
        return (PreFilterResult::Skip, None);
    }
    let borrowed = folds.take(SpreadKey::new(pod, rules, true), cluster);
    (PreFilterResult::All, Some(FilterState::new(pod, borrowed)))
}

/// Sums up what the rules that would be good to keep are about, for the nodes that do.
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go PreScore
pub(super) fn pre_score(
    pod: &Pod,
    cluster: &SchedulerCache,
    nodes: &[usize],
    folds: &mut IncrementalCache<SpreadCounts>,
) -> Option<ScoreState> {
    let rules = rules(pod, false, cluster);
    if rules.is_empty() {
        return None;
    }
    let all = !pod.spec.spread.is_empty();
    let borrowed = folds.take(SpreadKey::new(pod, rules, all), cluster);
    Some(ScoreState::new(borrowed, nodes))
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/podtopologyspread/plugin.go isSchedulableAfterAssignedPodChange, isSchedulableAfterTargetPodChange, isSchedulableAfterNodeChange
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>, cluster: &SchedulerCache) -> bool {
    let rules = rules(pod, true, cluster);
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
            let moved =
                |rule: &SpreadConstraint| old.labels.get(&rule.topology) != new.labels.get(&rule.topology);
            placed(old) != placed(new)
                || (placed(new) && (rules.iter().any(moved) || old.taints != new.taints))
        }
        _ => false,
    }
}

const PLUGIN: Plugin = Plugin::PodTopologySpread;
