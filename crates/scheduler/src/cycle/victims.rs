//! Which pods would have to go from a node.

use std::{cmp::Reverse, sync::Arc};

use super::{Nominator, engine::passes_with};
use crate::{
    cluster::NodeInfo,
    object::{Budget, Pod},
    plugins::{
        Plugin,
        calls::{Cycle, Shifts},
    },
    status::Rejection,
};

/// Pods that would have to go from a node, the most important first.
#[derive(Debug)]
pub(super) struct Victims {
    /// The place of the node.
    pub slot: usize,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
    /// How many budgets that breaks.
    pub violations: usize,
}

/// A node without some of its pods.
struct Thought<'t, 'c> {
    cycle: &'t Cycle<'c>,
    slot: usize,
    info: NodeInfo,
    shifts: Shifts,
    nominator: &'t Nominator,
}

/// The fewest and least important pods that have to go. All that are less important go first, and then as many as can
/// come back: those first whose budget would be broken, and of each kind the most important first.
pub(super) fn select(cycle: &Cycle<'_>, slot: usize, nominator: &Nominator) -> Result<Victims, Rejection> {
    let info = cycle.cluster.info(slot);
    let lower = info
        .pods
        .iter()
        .filter(|pod| pod.priority() < cycle.pod.priority());
    let mut lower: Vec<_> = lower.cloned().collect();
    if lower.is_empty() {
        let reason = "No preemption victims found for incoming pod";
        return Err(Rejection::never(Plugin::DefaultPreemption, reason));
    }
    let mut thought = Thought {
        cycle,
        slot,
        info: info.clone(),
        shifts: Shifts::none(),
        nominator,
    };
    for pod in &lower {
        thought.leave(pod);
    }
    thought.fits()?;
    lower.sort_by_key(importance);
    let (broken, free) = by_budget(lower, &cycle.cluster.budgets.values().collect::<Vec<_>>());
    let mixed = !broken.is_empty() && !free.is_empty();
    let mut pods = Vec::new();
    let mut violations = 0;
    for (pod, breaks) in broken
        .into_iter()
        .map(|pod| (pod, 1))
        .chain(free.into_iter().map(|pod| (pod, 0)))
    {
        if !thought.take_back(&pod) {
            pods.push(pod);
            violations += breaks;
        }
    }
    if mixed {
        pods.sort_by_key(importance);
    }
    Ok(Victims {
        slot,
        pods,
        violations,
    })
}

impl Thought<'_, '_> {
    fn leave(&mut self, pod: &Pod) {
        self.info.remove(&pod.uid);
        self.cycle.shift(&mut self.shifts, self.slot, pod, -1);
    }

    fn take_back(&mut self, pod: &Arc<Pod>) -> bool {
        self.info.add(pod.clone());
        self.cycle.shift(&mut self.shifts, self.slot, pod, 1);
        let fits = self.fits().is_ok();
        if !fits {
            self.leave(pod);
        }
        fits
    }

    fn fits(&self) -> Result<(), Rejection> {
        passes_with(self.cycle, self.slot, &self.info, &self.shifts, self.nominator)
    }
}

/// The more important first: by priority, then by how long it runs. One that has not started counts as started now.
fn importance(pod: &Arc<Pod>) -> (Reverse<i32>, Box<str>) {
    (
        Reverse(pod.priority()),
        pod.start.clone().unwrap_or_else(|| "~".into()),
    )
}

/// Those whose going breaks a budget, and the others.
fn by_budget(pods: Vec<Arc<Pod>>, budgets: &[&Arc<Budget>]) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let mut allowed: Vec<_> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut breaks = |pod: &Arc<Pod>| {
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let meant = budget.namespace == pod.namespace
                && !pod.labels.is_empty()
                && !budget.selector.is_empty()
                && budget.selector.matches(&pod.labels)
                && !budget.disrupted.contains(&pod.name);
            if meant {
                *allowed -= 1;
                if *allowed < 0 {
                    return true;
                }
            }
        }
        false
    };
    pods.into_iter().partition(|pod| breaks(pod))
}
