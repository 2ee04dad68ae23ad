//! Plugin `DefaultPreemption`: evicts pods of lower priority for one of higher priority.

mod victims;

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::jiff::Timestamp;

use super::{Candidate, ExtensionPoint, PostFilterContext, PostFilterResult, SchedulerPlugin};
use crate::{
    object::Pod,
    status::{Diagnosis, Rejection, RejectionCode},
};
use victims::{PreemptionVictims, select_victims_on_node};

/// Nodes are tried until there are this many choices in percent of them.
const MIN_CANDIDATE_NODES_PERCENTAGE: usize = 10;
/// But no fewer than this.
const MIN_CANDIDATE_NODES_ABSOLUTE: usize = 100;

#[derive(Debug)]
pub(super) struct DefaultPreemption;

impl SchedulerPlugin for DefaultPreemption {
    type State = ();

    fn name(&self) -> &'static str {
        "DefaultPreemption"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::PostFilter]
    }

    // upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go PostFilter
    fn post_filter(&self, context: &mut PostFilterContext<'_>) -> (PostFilterResult, Option<String>) {
        let (result, message) = preempt(context);
        (result, Some(format!("preemption: {message}")))
    }
}

/// Finds the node and victims of a preemption, and the message for the pod's condition.
// upstream: pkg/scheduler/framework/preemption/preemption.go Preempt
fn preempt(context: &mut PostFilterContext<'_>) -> (PostFilterResult, String) {
    if let Some(reason) = pod_ineligible_to_preempt_others(context) {
        return (PostFilterResult::Noop, reason.into());
    }
    let cluster = context.cycle.context.cluster;
    let mut failed = Diagnosis {
        absent_nodes_status: Some(Rejection::unresolvable(
            "Preemption is not helpful for scheduling",
        )),
        ..Diagnosis::default()
    };
    let candidates = dry_run_preemption(context, &mut failed);
    let Some(best) = select_candidate(candidates) else {
        return (
            PostFilterResult::NoCandidate,
            failed.message(cluster.order().len()),
        );
    };
    let node = cluster.info(best.slot).name.clone();
    let count = best.pods.len();
    let message = format!("found a potential placement for pod on node {node}, preempting {count} victims");
    let victims = best.pods;
    (PostFilterResult::Candidate(Candidate { node, victims }), message)
}

/// Why a pod is not eligible to preempt others; `None` if it is.
// upstream: pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go PodEligibleToPreemptOthers
fn pod_ineligible_to_preempt_others(context: &PostFilterContext<'_>) -> Option<&'static str> {
    let cycle = context.cycle.context;
    let diagnosis = context.diagnosis;
    if !cycle.pod.spec.preemption_allowed {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let slot = cycle.cluster.slot(cycle.pod.nominated_node_name.as_ref()?)?;
    let found = diagnosis.nodes.iter().find(|(known, _)| *known == slot);
    let code = found
        .map(|(_, rejection)| rejection)
        .or(diagnosis.absent_nodes_status.as_ref())
        .map(|rejection| rejection.code);
    if code == Some(RejectionCode::UnschedulableAndUnresolvable) {
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
fn dry_run_preemption(context: &mut PostFilterContext<'_>, failed: &mut Diagnosis) -> Vec<PreemptionVictims> {
    let rejected = context.diagnosis.nodes.iter();
    let nodes = rejected.filter(|(_, rejection)| rejection.code == RejectionCode::Unschedulable);
    let nodes: Vec<usize> = nodes.map(|(slot, _)| *slot).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    let num_candidates = (nodes.len() * MIN_CANDIDATE_NODES_PERCENTAGE / 100)
        .max(MIN_CANDIDATE_NODES_ABSOLUTE)
        .min(nodes.len());
    let offset = context.rng.below(nodes.len());
    let mut harmless = Vec::new();
    let mut harmful = Vec::new();
    for at in 0..nodes.len() {
        let slot = nodes[(offset + at) % nodes.len()];
        match select_victims_on_node(context.cycle, slot, context.nominator) {
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
        let oldest = oldest.map(|pod| pod.start.unwrap_or(Timestamp::MAX)).min();
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
