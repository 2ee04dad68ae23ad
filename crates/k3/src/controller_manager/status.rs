//! The status report of controllers.

use kubecontroller::{
    controller::ControllerHandle,
    manager::{ManagerContext, RunnableState},
};
use serde_json::{Value, json};

/// Maximum number of errors per controller in the report.
const ERRORS: usize = 3;

/// Builds the report.
pub(super) fn controllers_status(context: &ManagerContext) -> Value {
    let runnables = context.runnables();
    let is_leading = runnables
        .iter()
        .any(|runnable| runnable.leader_only && runnable.state != RunnableState::Idle);
    let controllers: Vec<_> = runnables
        .iter()
        .map(|runnable| {
            let mut entry = json!({"name": runnable.name, "state": state_name(runnable.state)});
            if let Some(handle) = &runnable.handle {
                entry["queue"] = queue(handle);
                entry["errors"] = errors(handle);
            }
            entry
        })
        .collect();
    json!({"elects": context.config().leader.elect, "leads": is_leading, "controllers": controllers})
}

fn queue(handle: &ControllerHandle) -> Value {
    let metrics = handle.stats();
    json!({
        "depth": metrics.depth,
        "running": metrics.running,
        "waiting": metrics.waiting,
        "adds": metrics.adds,
        "retries": metrics.retries,
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

fn state_name(state: RunnableState) -> &'static str {
    match state {
        RunnableState::Idle => "idle",
        RunnableState::Running => "running",
        RunnableState::Failed => "failed",
        RunnableState::Done => "done",
    }
}
