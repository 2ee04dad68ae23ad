//! A command in the container: well if it ends with 0.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction};
use tokio::time::timeout;

use super::{Found, look::length};
use crate::{
    environment::expand,
    runtime::{ContainerId, Runtime, RuntimeError},
};

/// How much longer the runtime may take than the command, to say that it took too long.
const SLACK: Duration = Duration::from_secs(10);
/// How much of what it writes is told, in bytes.
const MOST: usize = 10 * 1024;

/// Runs the command. What could not be run is neither well nor not.
pub(super) async fn look(
    runtime: &dyn Runtime,
    id: &ContainerId,
    container: &Container,
    action: &ExecAction,
    limit: Duration,
) -> Result<Found, String> {
    let command = filled(container, action);
    let late = || RuntimeError::Timeout {
        what: "exec".to_owned(),
        after: limit + SLACK,
    };
    let ran = timeout(limit + SLACK, runtime.exec_sync(id, &command, limit)).await;
    match ran.unwrap_or_else(|_| Err(late())) {
        Ok(output) => {
            let mut text = [output.stdout, output.stderr].concat();
            text.truncate(MOST);
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(if output.code == 0 {
                Found::Well(text)
            } else {
                Found::Unwell(text)
            })
        }
        Err(RuntimeError::Timeout { .. }) => {
            let command = command.join(" ");
            Ok(Found::Unwell(format!(
                "command timed out: \"{command}\" timed out after {}",
                length(limit)
            )))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The command with what the container's spec says of its environment, as far as that is plain text.
fn filled(container: &Container, action: &ExecAction) -> Vec<String> {
    let variables = container.env.iter().flatten();
    let value = |text: &Option<String>| text.clone().unwrap_or_default();
    let environment: Vec<_> = variables
        .map(|one| (one.name.clone(), value(&one.value)))
        .collect();
    let words = action.command.iter().flatten();
    words.map(|word| expand(word, &environment)).collect()
}
