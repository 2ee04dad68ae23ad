//! Victims of a preemption on one node.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::jiff::Timestamp;

use crate::{
    cache::NodeInfo,
    cycle::Nominator,
    object::{Pod, PodDisruptionBudget},
    plugins::framework::SchedulingCycle,
    status::Rejection,
};

/// Pods to evict from a node, the most important first.
#[derive(Debug)]
pub(super) struct PreemptionVictims {
    /// The place of the node.
    pub slot: usize,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
    /// How many budgets that breaks.
    pub violations: usize,
}

/// A simulated node, to which pods are added and removed.
struct SimulatedNode<'c> {
    cycle: SchedulingCycle<'c>,
    slot: usize,
    info: NodeInfo,
    nominator: &'c Nominator,
}

/// The fewest and least important victims. All pods of lower priority are removed first, then as many as possible are
/// reprieved: first those whose budget would be violated, and in each group the most important first.
// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go SelectVictimsOnNode
pub(super) fn select_victims_on_node(
    cycle: &SchedulingCycle<'_>,
    slot: usize,
    nominator: &Nominator,
) -> Result<PreemptionVictims, Rejection> {
    let cluster = cycle.context.cluster;
    let info = cluster.info(slot);
    let lower = info
        .pods
        .iter()
        .filter(|pod| pod.priority() < cycle.context.pod.priority());
    let mut lower: Vec<_> = lower.cloned().collect();
    if lower.is_empty() {
        let reason = "No preemption victims found for incoming pod";
        return Err(Rejection::unresolvable(reason));
    }
    let mut simulated = SimulatedNode {
        cycle: cycle.clone_for_simulation(),
        slot,
        info: info.clone(),
        nominator,
    };
    for pod in &lower {
        simulated.remove_pod(pod);
    }
    simulated.fits()?;
    lower.sort_by_key(more_important_pod_key);
    let (broken, free) =
        filter_victims_with_pdb_violation(lower, &cluster.budgets.values().collect::<Vec<_>>());
    let mixed = !broken.is_empty() && !free.is_empty();
    let mut pods = Vec::new();
    let mut violations = 0;
    for (pod, breaks) in broken
        .into_iter()
        .map(|pod| (pod, 1))
        .chain(free.into_iter().map(|pod| (pod, 0)))
    {
        if !simulated.reprieve_pod(&pod) {
            pods.push(pod);
            violations += breaks;
        }
    }
    if mixed {
        pods.sort_by_key(more_important_pod_key);
    }
    Ok(PreemptionVictims {
        slot,
        pods,
        violations,
    })
}

impl SimulatedNode<'_> {
    fn remove_pod(&mut self, pod: &Pod) {
        self.cycle.remove_pod(self.slot, &mut self.info, pod);
    }

    fn reprieve_pod(&mut self, pod: &Arc<Pod>) -> bool {
        self.cycle.add_pod(self.slot, &mut self.info, pod);
        let fits = self.fits().is_ok();
        if !fits {
            self.remove_pod(pod);
        }
        fits
    }

    fn fits(&self) -> Result<(), Rejection> {
        self.cycle
            .run_filter_plugins_with_nominated_pods(self.slot, &self.info, self.nominator)
    }
}

/// The more important first: by priority, then by how long it runs. One that has not started counts as started now.
// upstream: pkg/scheduler/util/utils.go MoreImportantPod
fn more_important_pod_key(pod: &Arc<Pod>) -> (Reverse<i32>, Timestamp) {
    (Reverse(pod.priority()), pod.start.unwrap_or(Timestamp::MAX))
}

/// Splits the pods into those whose preemption violates a `PodDisruptionBudget`, and the others.
// upstream: pkg/scheduler/framework/preemption/util.go FilterVictimsWithPDBViolation; older versions call it filterPodsWithPDBViolation
fn filter_victims_with_pdb_violation(
    pods: Vec<Arc<Pod>>,
    budgets: &[&Arc<PodDisruptionBudget>],
) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
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
