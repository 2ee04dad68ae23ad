//! Filter of inter-pod affinity and anti-affinity.

use super::AffinityCounts;
use crate::{
    cache::SchedulerCache,
    incremental::BorrowedState,
    interner::Text,
    object::{AffinityTerm, Node, Pod},
    status::{FilterResult, Rejection},
};

/// Inter-pod affinity state of one scheduling cycle.
#[derive(Debug)]
pub(crate) struct InterPodAffinityState {
    /// The counts.
    pub borrowed: BorrowedState<AffinityCounts>,
    /// Whether the pod matches its own affinity terms.
    first: bool,
}

/// Change of the counts of one topology pair by a simulated add or remove: topology key, value, and the changes of
/// affinity, anti-affinity and existing anti-affinity counts.
pub(crate) type TopologyDelta = (Text, Text, [i64; 3]);

/// Records a simulated add or remove of another pod on a node.
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go updateWithPod
pub(crate) fn delta(
    node: &Node,
    pod: &Pod,
    other: &Pod,
    by: i64,
    cluster: &SchedulerCache,
    deltas: &mut Vec<TopologyDelta>,
) {
    let theirs = cluster.namespaces.get(&other.namespace);
    let ours = cluster.namespaces.get(&pod.namespace);
    let means = |term: &&AffinityTerm| term.matches(&other.labels, &other.namespace, theirs);
    let mut add = |term: &AffinityTerm, change: [i64; 3]| {
        if let Some(value) = term.topology_value(node) {
            deltas.push((term.topology.clone(), value.clone(), change));
        }
    };
    if !pod.spec.required_affinity_terms.is_empty()
        && pod.spec.required_affinity_terms.iter().all(|term| means(&term))
    {
        for term in &pod.spec.required_affinity_terms {
            add(term, [by, 0, 0]);
        }
    }
    for term in pod.spec.required_anti_affinity_terms.iter().filter(means) {
        add(term, [0, by, 0]);
    }
    let refuses = |term: &&AffinityTerm| term.matches(&pod.labels, &pod.namespace, ours);
    for term in other.spec.required_anti_affinity_terms.iter().filter(refuses) {
        add(term, [0, 0, by]);
    }
}

impl InterPodAffinityState {
    /// Of a pod.
    pub(crate) fn new(pod: &Pod, borrowed: BorrowedState<AffinityCounts>, cluster: &SchedulerCache) -> Self {
        // Without this, the first pod of a group with affinity to itself could never be scheduled.
        let ours = cluster.namespaces.get(&pod.namespace);
        let means_itself = |term: &AffinityTerm| term.matches(&pod.labels, &pod.namespace, ours);
        let first = !pod.spec.required_affinity_terms.is_empty()
            && pod.spec.required_affinity_terms.iter().all(means_itself);
        InterPodAffinityState { borrowed, first }
    }

    /// Whether any existing pod's anti-affinity matches the pod.
    pub(crate) fn is_refused_somewhere(&self) -> bool {
        self.borrowed.state.total().existing_anti_affinity > 0
    }

    /// Whether a node does.
    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go Filter
    pub(crate) fn filter(
        &self,
        pod: &Pod,
        slot: usize,
        node: &Node,
        deltas: &[TopologyDelta],
    ) -> FilterResult {
        if !self.satisfies_pod_affinity(pod, slot, node, deltas) {
            return Err(Rejection::unresolvable("node(s) didn't match pod affinity rules"));
        }
        if !self.satisfies_pod_anti_affinity(pod, slot, node, deltas) {
            return Err(Rejection::unschedulable(
                "node(s) didn't match pod anti-affinity rules",
            ));
        }
        if !self.satisfies_existing_pods_anti_affinity(slot, node, deltas) {
            return Err(Rejection::unschedulable(
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ));
        }
        Ok(())
    }

    /// How good it is to be on a node.
    pub(crate) fn score(&self, slot: usize) -> i64 {
        self.borrowed.state.all(slot).map(|tally| tally.score).sum()
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go nodeTopologyMatchesAffinity, satisfiesSelfAffinityCheck
    fn satisfies_pod_affinity(&self, pod: &Pod, slot: usize, node: &Node, deltas: &[TopologyDelta]) -> bool {
        let mut there = true;
        for term in &pod.spec.required_affinity_terms {
            let Some(value) = term.topology_value(node) else {
                return false;
            };
            let pods = self
                .borrowed
                .state
                .at(slot, &term.topology)
                .map_or(0, |tally| tally.affinity);
            there &= pods + delta_at(deltas, &term.topology, value, 0) > 0;
        }
        let nowhere = || {
            let delta_at: i64 = deltas.iter().map(|(.., [near, ..])| near).sum();
            self.borrowed.state.total().affinity + delta_at == 0
        };
        there || (self.first && nowhere())
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go satisfyPodAntiAffinity
    fn satisfies_pod_anti_affinity(
        &self,
        pod: &Pod,
        slot: usize,
        node: &Node,
        deltas: &[TopologyDelta],
    ) -> bool {
        pod.spec.required_anti_affinity_terms.iter().all(|term| {
            let Some(value) = term.topology_value(node) else {
                return true;
            };
            let pods = self
                .borrowed
                .state
                .at(slot, &term.topology)
                .map_or(0, |tally| tally.anti_affinity);
            pods + delta_at(deltas, &term.topology, value, 1) <= 0
        })
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go satisfyExistingPodsAntiAffinity
    fn satisfies_existing_pods_anti_affinity(
        &self,
        slot: usize,
        node: &Node,
        deltas: &[TopologyDelta],
    ) -> bool {
        if deltas.is_empty() {
            return self
                .borrowed
                .state
                .all(slot)
                .all(|tally| tally.existing_anti_affinity <= 0);
        }
        node.labels.iter().all(|(label, value)| {
            let refusing = self
                .borrowed
                .state
                .at(slot, label)
                .map_or(0, |tally| tally.existing_anti_affinity);
            refusing + delta_at(deltas, label, value, 2) <= 0
        })
    }
}

fn delta_at(deltas: &[TopologyDelta], label: &Text, value: &Text, what: usize) -> i64 {
    let here = deltas
        .iter()
        .filter(|(known, at, _)| known == label && at == value);
    here.map(|(.., change)| change[what]).sum()
}
