//! What runs beside the API server, entry to those who ask it.

use kubecontroller::{
    controller::Handle,
    manager::{Context, State},
};
use serde_json::{Value, json};

/// How many errors of each controller are entry.
const ERRORS: usize = 3;

/// How everything fares.
pub(super) fn controllers_status(context: &Context) -> Value {
    let runnables = context.runnables();
    let is_leading = runnables
        .iter()
        .any(|runnable| runnable.leader_only && runnable.state != State::Idle);
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

fn queue(handle: &Handle) -> Value {
    let metrics = handle.figures();
    json!({
        "depth": metrics.depth,
        "running": metrics.running,
        "waiting": metrics.waiting,
        "adds": metrics.adds,
        "retries": metrics.retries,
    })
}

fn errors(handle: &Handle) -> Value {
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

fn state_name(state: State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::Running => "running",
        State::Failed => "failed",
        State::Done => "done",
    }
}
