//! Score: constraints with `whenUnsatisfiable: ScheduleAnyway`.

use super::{LABEL_HOSTNAME, SpreadCounts};
use crate::{
    incremental::BorrowedState,
    number::{count, to_f64, to_i64},
    plugins::{CandidateNode, normalize_score::MAX_NODE_SCORE},
};

/// The rules of a pod that would be good to keep, with what they count.
#[derive(Debug)]
pub(crate) struct ScoreState {
    /// The counts.
    pub borrowed: BorrowedState<SpreadCounts>,
    /// Per rule: the fewer places, the less a pod in one of them weighs.
    weights: Vec<f64>,
    hosts: Vec<bool>,
    all: bool,
}

impl ScoreState {
    /// Weighs the rules for the nodes that do.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go initPreScoreState, topologyNormalizingWeight
    pub(crate) fn new(borrowed: BorrowedState<SpreadCounts>, nodes: &[CandidateNode<'_>]) -> Self {
        let state = &borrowed.state;
        let hosts: Vec<_> = state
            .rules()
            .iter()
            .map(|rule| &*rule.topology == LABEL_HOSTNAME)
            .collect();
        let mut soft = ScoreState {
            weights: Vec::new(),
            hosts,
            all: state.needs_all(),
            borrowed,
        };
        let nodes: Vec<_> = nodes
            .iter()
            .map(|node| node.slot)
            .filter(|slot| !soft.ignores(*slot))
            .collect();
        let weigh = |at: usize| {
            let size = if soft.hosts[at] {
                nodes.len()
            } else {
                let state = &soft.borrowed.state;
                let mut seen = vec![false; state.domains(at).len()];
                nodes
                    .iter()
                    .filter_map(|slot| state.cell(*slot, at).domain)
                    .for_each(|domain| seen[domain] = true);
                seen.iter().filter(|seen| **seen).count()
            };
            to_f64(count(size + 2)).ln()
        };
        soft.weights = (0..soft.hosts.len()).map(weigh).collect();
        soft
    }

    /// Whether a node lacks a label, and so gets no score at all.
    pub(crate) fn ignores(&self, slot: usize) -> bool {
        self.all && (0..self.hosts.len()).any(|at| !self.borrowed.state.cell(slot, at).labelled)
    }

    /// How crowded the places of a node are.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go Score, scoreForCount
    pub(crate) fn score(&self, slot: usize) -> i64 {
        if self.ignores(slot) {
            return 0;
        }
        let state = &self.borrowed.state;
        let mut sum = 0.0;
        for (at, rule) in state.rules().iter().enumerate() {
            let cell = state.cell(slot, at);
            let (true, Some(domain)) = (cell.labelled, cell.domain) else {
                continue;
            };
            let pods = if self.hosts[at] {
                cell.pods
            } else {
                state.domains(at)[domain].pods
            };
            sum += to_f64(pods) * self.weights[at] + to_f64(rule.max_skew - 1);
        }
        to_i64(sum.round())
    }

    /// Emptier places are better.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/scoring.go NormalizeScore
    pub(crate) fn normalize(&self, nodes: &[CandidateNode<'_>], scores: &mut [i64]) {
        let ignored = |at: usize| self.ignores(nodes[at].slot);
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
                MAX_NODE_SCORE
            } else {
                MAX_NODE_SCORE * (most + least - *score) / most
            };
        }
    }
}
