//! The state machine.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kubecontroller::phase::{
    HandlerContext, Phase, PhaseError, StateMachine, StateMachineValidationError, Step, StepResult, function,
};

use crate::{
    activity::Executor,
    api::{Entry, EntryPhase, Workflow},
    graph::Graph,
};

/// The phases `init` and `execution`, followed by `final`, `rejected` or `failed`.
pub fn machine() -> Result<StateMachine<Workflow>, StateMachineValidationError> {
    StateMachine::builder("workflow")
        .phase(
            "init",
            Phase::run(function(check))
                .desc("validate the graph")
                .then("execution")
                .on_error("rejected"),
        )
        .phase(
            "execution",
            Phase::run(function(advance))
                .desc("run the graph")
                .then("final")
                .on_error("failed"),
        )
        .succeeded("final")
        .failed("rejected")
        .failed("failed")
        .defer(Duration::from_secs(1))
        .build()
}

async fn check(context: HandlerContext<Workflow>) -> StepResult<Workflow> {
    Graph::new(&context.resource().spec).map_err(PhaseError::fatal)?;
    Ok(Step::done())
}

/// Runs all ready vertices concurrently.
async fn advance(context: HandlerContext<Workflow>) -> StepResult<Workflow> {
    let workflow = context.resource();
    let graph = Graph::new(&workflow.spec).map_err(PhaseError::fatal)?;
    let entries = workflow
        .status
        .as_ref()
        .map(|status| status.entries.clone())
        .unwrap_or_default();
    // A failure was stored by the previous pass, together with the vertices that succeeded at the same time.
    if let Some((name, entry)) = entries
        .iter()
        .find(|(_, entry)| entry.phase == EntryPhase::Failed)
    {
        return Err(PhaseError::fatal(format!("{name}: {}", entry.reason)));
    }
    let is_done = |name: &str| {
        entries
            .get(name)
            .is_some_and(|entry| entry.phase == EntryPhase::Done)
    };
    let ready = graph.ready(is_done);
    if ready.is_empty() {
        return Ok(Step::done());
    }
    let executor = context.settings::<Executor>()?;
    let results = join_all(ready.iter().map(async |(name, activity)| {
        let result = match activity {
            Some(activity) => executor.run(activity).await,
            None => Ok(String::new()),
        };
        (*name, result)
    }))
    .await;
    let now = MicroTime(context.clock().now());
    let mut order = entries
        .values()
        .filter_map(|entry| entry.order)
        .max()
        .unwrap_or_default();
    let ended: BTreeMap<String, Entry> = results
        .into_iter()
        .map(|(name, result)| {
            order += 1;
            let (phase, reason) = match result {
                Ok(output) => (EntryPhase::Done, output),
                Err(why) => (EntryPhase::Failed, why),
            };
            let entry = Entry {
                phase,
                reason,
                order: Some(order),
                finish_time: Some(now.clone()),
            };
            (name.to_owned(), entry)
        })
        .collect();
    Ok(Step::not_yet()
        .after(Duration::ZERO)
        .change(move |workflow: &mut Workflow| {
            workflow
                .status
                .get_or_insert_default()
                .entries
                .extend(ended.clone());
        }))
}
