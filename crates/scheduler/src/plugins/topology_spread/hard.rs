//! Rules that must be kept.

use super::{PLUGIN, SpreadFold};
use crate::{
    fold::Taken,
    object::Pod,
    status::{Rejection, Verdict},
};

/// The rules of a pod that must be kept, with what they count.
#[derive(Debug)]
pub(crate) struct Hard {
    /// The counts.
    pub taken: Taken<SpreadFold>,
    limits: Vec<Limit>,
}

/// What a rule compares with.
#[derive(Debug)]
struct Limit {
    /// The emptiest place and the next.
    lowest: [(Option<usize>, i64); 2],
    places: i64,
    /// Whether the pod itself counts.
    own: i64,
}

impl Hard {
    /// Looks for the emptiest places.
    pub(crate) fn new(pod: &Pod, taken: Taken<SpreadFold>) -> Self {
        let limits = taken.fold.rules().iter().enumerate().map(|(at, rule)| {
            let mut limit = Limit {
                lowest: [(None, i64::from(i32::MAX)); 2],
                places: 0,
                own: i64::from(rule.selector.matches(&pod.labels)),
            };
            for (index, domain) in taken
                .fold
                .domains(at)
                .iter()
                .enumerate()
                .filter(|(_, domain)| domain.nodes > 0)
            {
                limit.places += 1;
                let place = (Some(index), domain.pods);
                if place.1 < limit.lowest[0].1 {
                    limit.lowest = [place, limit.lowest[0]];
                } else if place.1 < limit.lowest[1].1 {
                    limit.lowest[1] = place;
                }
            }
            limit
        });
        let limits = limits.collect();
        Hard { taken, limits }
    }

    /// What a pod changes that comes to a node or goes from it in thought: by rule, in the place of that node.
    pub(crate) fn shift(&self, slot: usize, pod: &Pod, other: &Pod, by: i64, shifts: &mut Vec<i64>) {
        let rules = self.taken.fold.rules();
        shifts.resize(rules.len(), 0);
        if other.namespace != pod.namespace
            || !rules.iter().enumerate().all(|(at, _)| self.labelled(slot, at))
        {
            return;
        }
        for (at, rule) in rules.iter().enumerate() {
            if self.taken.fold.cell(slot, at).counts && rule.selector.matches(&other.labels) {
                shifts[at] += by;
            }
        }
    }

    fn labelled(&self, slot: usize, rule: usize) -> bool {
        self.taken.fold.cell(slot, rule).labelled
    }

    /// Whether a pod on this node keeps all rules.
    pub(crate) fn filter(&self, slot: usize, shifts: &[i64]) -> Verdict {
        let fold = &self.taken.fold;
        for (at, (rule, limit)) in fold.rules().iter().zip(&self.limits).enumerate() {
            let cell = fold.cell(slot, at);
            let (true, Some(place)) = (cell.labelled, cell.domain) else {
                let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
                return Err(Rejection::never(PLUGIN, reason));
            };
            let shift = shifts.get(at).copied().unwrap_or(0);
            let there = fold.domains(at)[place].pods + shift;
            let lowest = limit.lowest(place, (shift != 0).then_some(there), rule.min_domains);
            if there + limit.own - lowest > rule.max_skew {
                return Err(Rejection::now(
                    PLUGIN,
                    "node(s) didn't match pod topology spread constraints",
                ));
            }
        }
        Ok(())
    }
}

impl Limit {
    /// How many pods the emptiest place has, when one place has been shifted to a count. Too few places count as an
    /// empty one more.
    fn lowest(&self, place: usize, shifted: Option<i64>, min_domains: i64) -> i64 {
        if self.places < min_domains {
            return 0;
        }
        let [first, second] = self.lowest;
        match shifted {
            None => first.1,
            Some(count) if first.0 == Some(place) => count.min(second.1),
            Some(count) => count.min(first.1),
        }
    }
}
