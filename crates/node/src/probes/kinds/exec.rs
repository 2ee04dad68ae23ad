//! Exec probes: a command in the container succeeds if it exits with 0.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction};
use tokio::time::timeout;

use crate::{
    environment::expand,
    probes::{
        ProbeAttempt,
        probe_kind::{ProbeContext, ProbeFuture, ProbeKind},
        prober::ProbeError,
    },
    runtime::RuntimeError,
};

/// Time beyond the timeout of the command in which the runtime has to report the timeout.
const RUNTIME_SLACK: Duration = Duration::from_secs(10);
/// Limit of the output in events.
// upstream: pkg/probe/exec/exec.go Probe
const MAX_OUTPUT_BYTES: usize = 10 * 1024;

pub(super) struct ExecProbe;

impl ProbeKind for ExecProbe {
    fn probe<'a>(&self, context: ProbeContext<'a>) -> Option<ProbeFuture<'a>> {
        let action = context.target.probe.exec.as_ref()?;
        Some(Box::pin(probe(context, action)))
    }
}

/// Runs the command. An error means that it could not be run, which is neither success nor failure.
async fn probe(context: ProbeContext<'_>, action: &ExecAction) -> Result<ProbeAttempt, ProbeError> {
    let runtime = context.runtime.ok_or(ProbeError::NoRuntime)?;
    let limit = context.limit;
    let id = &context.target.id;
    let container = &context.target.container;
    let command = expand_command(container, action);
    let runtime_timeout = || RuntimeError::Timeout {
        what: "exec".to_owned(),
        after: limit + RUNTIME_SLACK,
    };
    let result = timeout(limit + RUNTIME_SLACK, runtime.exec_sync(id, &command, limit)).await;
    match result.unwrap_or_else(|_| Err(runtime_timeout())) {
        Ok(output) => {
            let mut bytes = [output.stdout, output.stderr].concat();
            bytes.truncate(MAX_OUTPUT_BYTES);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(if output.code == 0 {
                ProbeAttempt::Success(text)
            } else {
                ProbeAttempt::Failure(text)
            })
        }
        Err(RuntimeError::Timeout { .. }) => {
            let command = command.join(" ");
            Ok(ProbeAttempt::Failure(format!(
                "command timed out: \"{command}\" timed out after {}",
                k3_duration::format(limit)
            )))
        }
        Err(error) => Err(ProbeError::Exec(error)),
    }
}

/// Expands `$(NAME)` in the command. Only with variables that have a literal `value`: like upstream, probes do not resolve
/// `valueFrom`.
// upstream: pkg/kubelet/container/helpers.go ExpandContainerCommandOnlyStatic
fn expand_command(container: &Container, action: &ExecAction) -> Vec<String> {
    let variables = container.env.iter().flatten();
    let environment: Vec<_> = variables
        .map(|variable| (variable.name.clone(), variable.value.clone().unwrap_or_default()))
        .collect();
    let arguments = action.command.iter().flatten();
    arguments.map(|argument| expand(argument, &environment)).collect()
}
