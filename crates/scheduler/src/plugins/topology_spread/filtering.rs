//! Filter: constraints with `whenUnsatisfiable: DoNotSchedule`.

use super::SpreadCounts;
use crate::{
    incremental::BorrowedState,
    object::Pod,
    status::{FilterResult, Rejection},
};

/// The rules of a pod that must be kept, with what they count.
#[derive(Debug)]
pub(crate) struct FilterState {
    /// The counts.
    pub borrowed: BorrowedState<SpreadCounts>,
    limits: Vec<Limit>,
}

/// What a rule compares with.
#[derive(Debug)]
struct Limit {
    /// The domain with the fewest pods and the next (upstream's critical paths).
    lowest: [(Option<usize>, i64); 2],
    domains: i64,
    /// Whether the pod itself counts.
    own: i64,
}

impl FilterState {
    /// Finds the domains with the fewest pods.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go calPreFilterState, criticalPaths
    pub(crate) fn new(pod: &Pod, borrowed: BorrowedState<SpreadCounts>) -> Self {
        let limits = borrowed.state.rules().iter().enumerate().map(|(at, rule)| {
            let mut limit = Limit {
                lowest: [(None, i64::from(i32::MAX)); 2],
                domains: 0,
                own: i64::from(rule.selector.matches(&pod.labels)),
            };
            for (index, domain) in borrowed
                .state
                .domains(at)
                .iter()
                .enumerate()
                .filter(|(_, domain)| domain.nodes > 0)
            {
                limit.domains += 1;
                let candidate = (Some(index), domain.pods);
                if candidate.1 < limit.lowest[0].1 {
                    limit.lowest = [candidate, limit.lowest[0]];
                } else if candidate.1 < limit.lowest[1].1 {
                    limit.lowest[1] = candidate;
                }
            }
            limit
        });
        let limits = limits.collect();
        FilterState { borrowed, limits }
    }

    /// Records a simulated add or remove of a pod: the change per constraint in the node's domain.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go updateWithPod
    pub(crate) fn delta(&self, slot: usize, pod: &Pod, other: &Pod, by: i64, deltas: &mut Vec<i64>) {
        let rules = self.borrowed.state.rules();
        deltas.resize(rules.len(), 0);
        if other.namespace != pod.namespace
            || !rules.iter().enumerate().all(|(at, _)| self.labelled(slot, at))
        {
            return;
        }
        for (at, rule) in rules.iter().enumerate() {
            if self.borrowed.state.cell(slot, at).counts && rule.selector.matches(&other.labels) {
                deltas[at] += by;
            }
        }
    }

    fn labelled(&self, slot: usize, rule: usize) -> bool {
        self.borrowed.state.cell(slot, rule).labelled
    }

    /// Whether a pod on this node keeps all rules.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go Filter
    pub(crate) fn filter(&self, slot: usize, deltas: &[i64]) -> FilterResult {
        let state = &self.borrowed.state;
        for (at, (rule, limit)) in state.rules().iter().zip(&self.limits).enumerate() {
            let cell = state.cell(slot, at);
            let (true, Some(domain)) = (cell.labelled, cell.domain) else {
                let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Err(Rejection::unresolvable(reason));
            };
            let delta = deltas.get(at).copied().unwrap_or(0);
            let there = state.domains(at)[domain].pods + delta;
            let lowest = limit.lowest(domain, (delta != 0).then_some(there), rule.min_domains);
            if there + limit.own - lowest > rule.max_skew {
                return Err(Rejection::unschedulable(
                    "node(s) didn't match pod topology spread constraints",
                ));
            }
        }
        Ok(())
    }
}

impl Limit {
    /// The minimum number of matching pods in a domain, when the count of one domain was changed. Fewer domains than
    /// `minDomains` make the minimum zero.
    // upstream: pkg/scheduler/framework/plugins/podtopologyspread/filtering.go minMatchNum
    fn lowest(&self, domain: usize, delta_at: Option<i64>, min_domains: i64) -> i64 {
        if self.domains < min_domains {
            return 0;
        }
        let [first, second] = self.lowest;
        match delta_at {
            None => first.1,
            Some(count) if first.0 == Some(domain) => count.min(second.1),
            Some(count) => count.min(first.1),
        }
    }
}
