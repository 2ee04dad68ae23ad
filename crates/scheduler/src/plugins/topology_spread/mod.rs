//! Pods of a kind spread evenly over places.

mod fold;
mod hard;
mod soft;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(super) use fold::{Rule, SpreadFold, SpreadKey};
pub(super) use hard::Hard;
pub(super) use soft::Soft;

use super::{Plugin, calls::Early};
use crate::{
    cluster::Cluster,
    event::Event,
    fold::Folds,
    object::{Node, Pod, Policy},
    selector::Selector,
};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The rules of a pod that must be kept, or those that would be good to keep. A pod without rules of its own spreads
/// over hosts and zones where it can, together with the other pods of its services and its set.
fn rules(pod: &Pod, must: bool, cluster: &Cluster) -> Vec<Rule> {
    if !pod.spec.spread.is_empty() {
        let own = pod.spec.spread.iter().filter(|spread| spread.must == must);
        return own
            .map(|spread| Rule {
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
    let selector = cluster.groups.selector_of(pod);
    if selector.is_empty() || *selector == Selector::Nothing {
        return Vec::new();
    }
    let default = |topology: &str, max_skew| Rule {
        topology: topology.into(),
        selector: selector.clone(),
        policy: Policy {
            affinity: true,
            taints: false,
        },
        max_skew,
        min_domains: 1,
    };
    vec![default(HOST, 3), default(ZONE, 5)]
}

/// Sums up what the rules that must be kept are about.
pub(super) fn pre_filter(
    pod: &Pod,
    cluster: &Cluster,
    folds: &mut Folds<SpreadFold>,
) -> (Early, Option<Hard>) {
    let rules = rules(pod, true, cluster);
    if rules.is_empty() {
        return (Early::Skip, None);
    }
    let taken = folds.take(SpreadKey::new(pod, rules, true), cluster);
    (Early::All, Some(Hard::new(pod, taken)))
}

/// Sums up what the rules that would be good to keep are about, for the nodes that do.
pub(super) fn pre_score(
    pod: &Pod,
    cluster: &Cluster,
    nodes: &[usize],
    folds: &mut Folds<SpreadFold>,
) -> Option<Soft> {
    let rules = rules(pod, false, cluster);
    if rules.is_empty() {
        return None;
    }
    let all = !pod.spec.spread.is_empty();
    let taken = folds.take(SpreadKey::new(pod, rules, all), cluster);
    Some(Soft::new(taken, nodes))
}

/// Whether something helps a pod that was rejected.
pub(super) fn helps(pod: &Pod, event: &Event<'_>, cluster: &Cluster) -> bool {
    let rules = rules(pod, true, cluster);
    let counts = |other: &Pod| rules.iter().any(|rule| rule.selector.matches(&other.labels));
    let counts_differently = |old: &Pod, new: &Pod| {
        let differs = |rule: &Rule| rule.selector.matches(&old.labels) != rule.selector.matches(&new.labels);
        old.labels != new.labels && rules.iter().any(differs)
    };
    let placed = |node: &Node| rules.iter().all(|rule| node.labels.get(&rule.topology).is_some());
    match event {
        Event::PodCame(other) | Event::PodWent(other) => other.namespace == pod.namespace && counts(other),
        Event::PodChanged { old, new } => new.namespace == pod.namespace && counts_differently(old, new),
        Event::ItselfChanged { old, new } => {
            (old.spec.tolerations != new.spec.tolerations && rules.iter().any(|rule| rule.policy.taints))
                || counts_differently(old, new)
        }
        Event::NodeCame(node) | Event::NodeWent(node) => placed(node),
        Event::NodeChanged { old, new } => {
            let moved = |rule: &Rule| old.labels.get(&rule.topology) != new.labels.get(&rule.topology);
            placed(old) != placed(new)
                || (placed(new) && (rules.iter().any(moved) || old.taints != new.taints))
        }
        _ => false,
    }
}

const PLUGIN: Plugin = Plugin::PodTopologySpread;
