//! The machine.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kubecontroller::phase::{Context, Machine, MachineErrors, Phase, PhaseError, Step, StepResult, function};

use crate::{
    activity::Executor,
    api::{Entry, EntryPhase, Workflow},
    graph::Graph,
};

/// `init`, `execution`, `final`; `rejected` for a graph that cannot be run, `failed` for one that was not.
pub fn machine() -> Result<Machine<Workflow>, MachineErrors> {
    Machine::builder("workflow")
        .phase(
            "init",
            Phase::run(function(check))
                .desc("check the graph")
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

async fn check(context: Context<Workflow>) -> StepResult<Workflow> {
    Graph::new(&context.resource().spec).map_err(PhaseError::fatal)?;
    Ok(Step::done())
}

/// Runs what may begin, all of it at once.
async fn advance(context: Context<Workflow>) -> StepResult<Workflow> {
    let workflow = context.resource();
    let graph = Graph::new(&workflow.spec).map_err(PhaseError::fatal)?;
    let entries = workflow
        .status
        .as_ref()
        .map(|status| status.entries.clone())
        .unwrap_or_default();
    // What ended badly was written in the pass before, next to what ended well meanwhile.
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
                Ok(said) => (EntryPhase::Done, said),
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
