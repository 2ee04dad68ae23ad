//! Whether a node is near the right pods and away from the wrong ones.

use super::AffinityFold;
use crate::{
    cluster::Cluster,
    fold::Taken,
    object::{Node, Pod, Term},
    plugins::Plugin,
    pool::Text,
    status::{Rejection, Verdict},
};

/// What a pod says about others, with what is counted.
#[derive(Debug)]
pub(crate) struct Social {
    /// The counts.
    pub taken: Taken<AffinityFold>,
    /// Whether it means itself.
    first: bool,
}

/// What pods change that come or go in thought: label and value of a place, and by how much the pods that are near,
/// are away and refuse are more.
pub(crate) type Shift = (Text, Text, [i64; 3]);

const PLUGIN: Plugin = Plugin::InterPodAffinity;

/// What another pod changes that comes to a node or goes from it in thought.
pub(crate) fn shift(
    node: &Node,
    pod: &Pod,
    other: &Pod,
    by: i64,
    cluster: &Cluster,
    shifts: &mut Vec<Shift>,
) {
    let theirs = cluster.namespaces.get(&other.namespace);
    let ours = cluster.namespaces.get(&pod.namespace);
    let means = |term: &&Term| term.matches(&other.labels, &other.namespace, theirs);
    let mut add = |term: &Term, change: [i64; 3]| {
        if let Some(value) = term.place(node) {
            shifts.push((term.topology.clone(), value.clone(), change));
        }
    };
    if !pod.spec.near.is_empty() && pod.spec.near.iter().all(|term| means(&term)) {
        for term in &pod.spec.near {
            add(term, [by, 0, 0]);
        }
    }
    for term in pod.spec.away.iter().filter(means) {
        add(term, [0, by, 0]);
    }
    let refuses = |term: &&Term| term.matches(&pod.labels, &pod.namespace, ours);
    for term in other.spec.away.iter().filter(refuses) {
        add(term, [0, 0, by]);
    }
}

impl Social {
    /// Of a pod.
    pub(crate) fn new(pod: &Pod, taken: Taken<AffinityFold>, cluster: &Cluster) -> Self {
        // A pod that wants to be near its own kind must be able to be the first.
        let ours = cluster.namespaces.get(&pod.namespace);
        let means_itself = |term: &Term| term.matches(&pod.labels, &pod.namespace, ours);
        let first = !pod.spec.near.is_empty() && pod.spec.near.iter().all(means_itself);
        Social { taken, first }
    }

    /// Whether some pod keeps it away from somewhere.
    pub(crate) fn is_refused_somewhere(&self) -> bool {
        self.taken.fold.total().refused > 0
    }

    /// Whether a node does.
    pub(crate) fn filter(&self, pod: &Pod, slot: usize, node: &Node, shifts: &[Shift]) -> Verdict {
        if !self.near(pod, slot, node, shifts) {
            return Err(Rejection::never(
                PLUGIN,
                "node(s) didn't match pod affinity rules",
            ));
        }
        if !self.away(pod, slot, node, shifts) {
            return Err(Rejection::now(
                PLUGIN,
                "node(s) didn't match pod anti-affinity rules",
            ));
        }
        if !self.welcome(slot, node, shifts) {
            return Err(Rejection::now(
                PLUGIN,
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ));
        }
        Ok(())
    }

    /// How good it is to be on a node.
    pub(crate) fn score(&self, slot: usize) -> i64 {
        self.taken.fold.all(slot).map(|tally| tally.score).sum()
    }

    fn near(&self, pod: &Pod, slot: usize, node: &Node, shifts: &[Shift]) -> bool {
        let mut there = true;
        for term in &pod.spec.near {
            let Some(value) = term.place(node) else {
                return false;
            };
            let pods = self
                .taken
                .fold
                .at(slot, &term.topology)
                .map_or(0, |tally| tally.near);
            there &= pods + shifted(shifts, &term.topology, value, 0) > 0;
        }
        let nowhere = || {
            let shifted: i64 = shifts.iter().map(|(.., [near, ..])| near).sum();
            self.taken.fold.total().near + shifted == 0
        };
        there || (self.first && nowhere())
    }

    fn away(&self, pod: &Pod, slot: usize, node: &Node, shifts: &[Shift]) -> bool {
        pod.spec.away.iter().all(|term| {
            let Some(value) = term.place(node) else {
                return true;
            };
            let pods = self
                .taken
                .fold
                .at(slot, &term.topology)
                .map_or(0, |tally| tally.away);
            pods + shifted(shifts, &term.topology, value, 1) <= 0
        })
    }

    fn welcome(&self, slot: usize, node: &Node, shifts: &[Shift]) -> bool {
        if shifts.is_empty() {
            return self.taken.fold.all(slot).all(|tally| tally.refused <= 0);
        }
        node.labels.iter().all(|(label, value)| {
            let refusing = self.taken.fold.at(slot, label).map_or(0, |tally| tally.refused);
            refusing + shifted(shifts, label, value, 2) <= 0
        })
    }
}

fn shifted(shifts: &[Shift], label: &Text, value: &Text, what: usize) -> i64 {
    let here = shifts
        .iter()
        .filter(|(known, at, _)| known == label && at == value);
    here.map(|(.., change)| change[what]).sum()
}
