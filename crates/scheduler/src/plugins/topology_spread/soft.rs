//! Rules that would be good to keep.

use super::{HOST, SpreadFold};
use crate::{
    fold::Taken,
    number::{count, real, whole},
    plugins::score::MAX,
};

/// The rules of a pod that would be good to keep, with what they count.
#[derive(Debug)]
pub(crate) struct Soft {
    /// The counts.
    pub taken: Taken<SpreadFold>,
    /// Per rule: the fewer places, the less a pod in one of them weighs.
    weights: Vec<f64>,
    hosts: Vec<bool>,
    all: bool,
}

impl Soft {
    /// Weighs the rules for the nodes that do.
    pub(crate) fn new(taken: Taken<SpreadFold>, nodes: &[usize]) -> Self {
        let fold = &taken.fold;
        let hosts: Vec<_> = fold.rules().iter().map(|rule| &*rule.topology == HOST).collect();
        let mut soft = Soft {
            weights: Vec::new(),
            hosts,
            all: fold.needs_all(),
            taken,
        };
        let nodes: Vec<_> = nodes
            .iter()
            .copied()
            .filter(|slot| !soft.ignores(*slot))
            .collect();
        let weigh = |at: usize| {
            let size = if soft.hosts[at] {
                nodes.len()
            } else {
                let fold = &soft.taken.fold;
                let mut seen = vec![false; fold.domains(at).len()];
                nodes
                    .iter()
                    .filter_map(|slot| fold.cell(*slot, at).domain)
                    .for_each(|domain| seen[domain] = true);
                seen.iter().filter(|seen| **seen).count()
            };
            real(count(size + 2)).ln()
        };
        soft.weights = (0..soft.hosts.len()).map(weigh).collect();
        soft
    }

    /// Whether a node lacks a label, and so gets no score at all.
    pub(crate) fn ignores(&self, slot: usize) -> bool {
        self.all && (0..self.hosts.len()).any(|at| !self.taken.fold.cell(slot, at).labelled)
    }

    /// How crowded the places of a node are.
    pub(crate) fn score(&self, slot: usize) -> i64 {
        if self.ignores(slot) {
            return 0;
        }
        let fold = &self.taken.fold;
        let mut sum = 0.0;
        for (at, rule) in fold.rules().iter().enumerate() {
            let cell = fold.cell(slot, at);
            let (true, Some(domain)) = (cell.labelled, cell.domain) else {
                continue;
            };
            let pods = if self.hosts[at] {
                cell.pods
            } else {
                fold.domains(at)[domain].pods
            };
            sum += real(pods) * self.weights[at] + real(rule.max_skew - 1);
        }
        whole(sum.round())
    }

    /// Emptier places are better.
    pub(crate) fn normalize(&self, nodes: &[usize], scores: &mut [i64]) {
        let ignored = |at: usize| self.ignores(nodes[at]);
        let counted = || {
            scores
                .iter()
                .enumerate()
                .filter(|(at, _)| !ignored(*at))
                .map(|(_, score)| *score)
        };
        let least = counted().min().unwrap_or(0);
        let most = counted().max().unwrap_or(0).max(0);
        for (at, score) in scores.iter_mut().enumerate() {
            *score = if ignored(at) {
                0
            } else if most == 0 {
                MAX
            } else {
                MAX * (most + least - *score) / most
            };
        }
    }
}
