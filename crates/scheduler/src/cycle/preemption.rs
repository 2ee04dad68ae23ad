//! Default preemption: evicts pods of lower priority for one of higher priority.

use std::{cmp::Reverse, sync::Arc};

use super::{
    Nominator,
    victims::{PreemptionVictims, select_victims_on_node},
};
use crate::{
    interner::Text,
    object::Pod,
    plugins::{Plugin, framework::CycleState},
    rng::Rng,
    status::{Code, Diagnosis, Rejection},
};

/// Nodes are tried until there are this many choices in percent of them.
const MIN_CANDIDATE_NODES_PERCENTAGE: usize = 10;
/// But no fewer than this.
const MIN_CANDIDATE_NODES_ABSOLUTE: usize = 100;

/// Result of the `PostFilter` extension point.
#[derive(Debug)]
pub(crate) enum PostFilterResult {
    /// Victims were found; the pod is nominated to their node.
    Candidate(Candidate),
    /// Preemption does not help; the nomination is cleared.
    NoCandidate,
    /// Preemption was not attempted; the nomination stays.
    Noop,
}

/// A node and the victims to evict from it.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The node.
    pub node: Text,
    /// The pods that are to go.
    pub victims: Vec<Arc<Pod>>,
}

/// Finds the node and victims of a preemption, and the message for the pod's condition.
// upstream: pkg/scheduler/framework/preemption/preemption.go Preempt
pub(super) fn preempt(
    cycle: &CycleState<'_>,
    diagnosis: &Diagnosis,
    nominator: &Nominator,
    rng: &mut Rng,
) -> (PostFilterResult, Option<String>) {
    if let Some(reason) = pod_ineligible_to_preempt_others(cycle, diagnosis) {
        return (PostFilterResult::Noop, Some(reason.into()));
    }
    let nodes = diagnosis
        .nodes
        .iter()
        .filter(|(_, rejection)| rejection.code == Code::Unschedulable);
    let nodes: Vec<usize> = nodes.map(|(slot, _)| *slot).collect();
    let mut failed = Diagnosis {
        absent_nodes_status: Some(Rejection::unresolvable(
            Plugin::DefaultPreemption,
            "Preemption is not helpful for scheduling",
        )),
        ..Diagnosis::default()
    };
    let candidates = dry_run_preemption(cycle, &nodes, nominator, rng, &mut failed);
    let Some(best) = select_candidate(candidates) else {
        return (
            PostFilterResult::NoCandidate,
            Some(failed.message(cycle.cluster.order().len())),
        );
    };
    let node = cycle.cluster.info(best.slot).name.clone();
    let count = best.pods.len();
    let message = format!("found a potential placement for pod on node {node}, preempting {count} victims");
    let victims = best.pods;
    (
        PostFilterResult::Candidate(Candidate { node, victims }),
        Some(message),
    )
}

/// Why a pod is not eligible to preempt others; `None` if it is.
// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go PodEligibleToPreemptOthers
fn pod_ineligible_to_preempt_others(cycle: &CycleState<'_>, diagnosis: &Diagnosis) -> Option<&'static str> {
    if !cycle.pod.spec.preemption_allowed {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let slot = cycle.cluster.slot(cycle.pod.nominated_node_name.as_ref()?)?;
    let found = diagnosis.nodes.iter().find(|(known, _)| *known == slot);
    let code = found
        .map(|(_, rejection)| rejection)
        .or(diagnosis.absent_nodes_status.as_ref())
        .map(|rejection| rejection.code);
    if code == Some(Code::UnschedulableAndUnresolvable) {
        return None;
    }
    let terminating = |pod: &Arc<Pod>| pod.preempted && pod.priority() < cycle.pod.priority();
    let pods = &cycle.cluster.info(slot).pods;
    pods.iter()
        .any(terminating)
        .then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Choices: first those that break no budget.
// upstream: pkg/scheduler/framework/preemption/preemption.go findCandidates, DryRunPreemption
fn dry_run_preemption(
    cycle: &CycleState<'_>,
    nodes: &[usize],
    nominator: &Nominator,
    rng: &mut Rng,
    failed: &mut Diagnosis,
) -> Vec<PreemptionVictims> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let num_candidates = (nodes.len() * MIN_CANDIDATE_NODES_PERCENTAGE / 100)
        .max(MIN_CANDIDATE_NODES_ABSOLUTE)
        .min(nodes.len());
    let offset = rng.below(nodes.len());
    let mut harmless = Vec::new();
    let mut harmful = Vec::new();
    for at in 0..nodes.len() {
        let slot = nodes[(offset + at) % nodes.len()];
        match select_victims_on_node(cycle, slot, nominator) {
            Ok(victims) if victims.violations == 0 => harmless.push(victims),
            Ok(victims) => harmful.push(victims),
            Err(rejection) => failed.add(slot, rejection),
        }
        if !harmless.is_empty() && harmless.len() + harmful.len() >= num_candidates {
            break;
        }
    }
    harmless.append(&mut harmful);
    harmless
}

/// The candidate with the fewest `PodDisruptionBudget` violations, then the lowest priorities, then the fewest pods, then the
/// latest start time.
// upstream: pkg/scheduler/framework/preemption/preemption.go SelectCandidate, pickOneNodeForPreemption
fn select_candidate(candidates: Vec<PreemptionVictims>) -> Option<PreemptionVictims> {
    let harm = |victims: &PreemptionVictims| {
        let highest = victims.pods.first().map_or(i32::MIN, |pod| pod.priority());
        // Each pod counts, however low its priority is.
        let sum: i64 = victims
            .pods
            .iter()
            .map(|pod| i64::from(pod.priority()) + i64::from(i32::MAX) + 1)
            .sum();
        let oldest = victims.pods.iter().filter(|pod| pod.priority() == highest);
        // One that has not started counts as started now.
        let oldest = oldest
            .map(|pod| pod.start.clone().unwrap_or_else(|| "~".into()))
            .min();
        (
            victims.violations,
            highest,
            sum,
            victims.pods.len(),
            Reverse(oldest),
        )
    };
    candidates.into_iter().min_by_key(harm)
}
