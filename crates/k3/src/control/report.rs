//! What runs beside the API server, told to those who ask it.

use kubecontroller::{
    controller::ControllerHandle,
    manager::{ManagerContext, RunnableState},
};
use serde_json::{Value, json};

/// How many errors of each controller are told.
const ERRORS: usize = 3;

/// How everything fares.
pub(super) fn of(context: &ManagerContext) -> Value {
    let runnables = context.runnables();
    let is_leading = runnables
        .iter()
        .any(|runnable| runnable.leader_only && runnable.state != RunnableState::Idle);
    let controllers: Vec<_> = runnables
        .iter()
        .map(|runnable| {
            let mut told = json!({"name": runnable.name, "state": word(runnable.state)});
            if let Some(handle) = &runnable.handle {
                told["queue"] = queue(handle);
                told["errors"] = errors(handle);
            }
            told
        })
        .collect();
    json!({"elects": context.config().leader.elect, "leads": is_leading, "controllers": controllers})
}

fn queue(handle: &ControllerHandle) -> Value {
    let figures = handle.stats();
    json!({
        "depth": figures.depth,
        "running": figures.running,
        "waiting": figures.waiting,
        "adds": figures.adds,
        "retries": figures.retries,
    })
}

fn errors(handle: &ControllerHandle) -> Value {
    let errors = handle.last_errors().into_iter().take(ERRORS);
    errors
        .map(|error| {
            json!({
                "at": error.at.to_string(),
                "key": error.key.to_string(),
                "message": error.message,
                "failures": error.failures,
            })
        })
        .collect()
}

fn word(state: RunnableState) -> &'static str {
    match state {
        RunnableState::Idle => "idle",
        RunnableState::Running => "running",
        RunnableState::Failed => "failed",
        RunnableState::Done => "done",
    }
}
