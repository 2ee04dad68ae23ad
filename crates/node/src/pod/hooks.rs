//! Lifecycle hooks `postStart` and `preStop`.
// upstream: pkg/kubelet/lifecycle/handlers.go handlerRunner

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod};

use crate::{
    identity::format_pod,
    probes::{
        ProbeAttempt,
        http::{self, HttpGetError, RequestPurpose},
    },
    runtime::{ContainerId, Runtime, RuntimeError},
};

/// The container whose hook runs.
pub(super) struct HookContext<'a> {
    pub runtime: &'a dyn Runtime,
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub id: &'a ContainerId,
    pub addresses: &'a [IpAddr],
}

/// Why a hook failed. The message is reported in the container status only, not in an event: it may contain secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    /// A command failed.
    #[error(
        "Exec lifecycle hook ([{command}]) for Container \"{container}\" in Pod \"{pod}\" failed - error: {source}, message: {:?}",
        source.output()
    )]
    Exec {
        command: String,
        container: String,
        pod: String,
        source: ExecHookError,
    },
    /// An HTTP request failed.
    #[error(
        "HTTP lifecycle hook ({path}) for Container \"{container}\" in Pod \"{pod}\" failed - error: {source}"
    )]
    Http {
        path: String,
        container: String,
        pod: String,
        source: HttpHookError,
    },
    /// The hook has no action.
    #[error("Cannot run handler: invalid handler")]
    NoAction,
}

/// Why the command of a hook failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecHookError {
    /// The command could not be run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The command reported a failure.
    #[error("command '{command}' exited with {code}: {}", output.trim_end())]
    Exited {
        command: String,
        code: i32,
        output: String,
    },
}

/// Why the HTTP request of a hook failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpHookError {
    /// Neither the pod nor the hook has an address.
    #[error("failed to find networking container")]
    NoAddress,
    /// The hook is invalid, or the response is incomplete.
    #[error(transparent)]
    Request(#[from] HttpGetError),
    /// There was no response. Contains the message of Go's client.
    #[error("{0}")]
    NoResponse(String),
}

/// Runs a hook, at most for `limit`.
// upstream: pkg/kubelet/lifecycle/handlers.go Run
pub(super) async fn run_hook(
    context: &HookContext<'_>,
    hook: &LifecycleHandler,
    limit: Duration,
) -> Result<(), HookError> {
    if let Some(exec) = &hook.exec {
        let command = exec.command.as_deref().unwrap_or_default();
        return run_command(context, command, limit)
            .await
            .map_err(|source| HookError::Exec {
                command: command.join(" "),
                container: context.container.name.clone(),
                pod: format_pod(context.pod),
                source,
            });
    }
    if let Some(get) = &hook.http_get {
        return http_get(context, get, limit)
            .await
            .map_err(|source| HookError::Http {
                path: get.path.clone().unwrap_or_default(),
                container: context.container.name.clone(),
                pod: format_pod(context.pod),
                source,
            });
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err(HookError::NoAction)
}

/// Runs a command in the container.
// upstream: pkg/kubelet/lifecycle/handlers.go Run
async fn run_command(
    context: &HookContext<'_>,
    command: &[String],
    limit: Duration,
) -> Result<(), ExecHookError> {
    let output = context.runtime.exec_sync(context.id, command, limit).await?;
    if output.code == 0 {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ExecHookError::Exited {
        command: command.join(" "),
        code: output.code,
        output: text,
    })
}

/// Sends an HTTP request; any response counts as success.
// upstream: pkg/kubelet/lifecycle/handlers.go runHTTPHandler
async fn http_get(
    context: &HookContext<'_>,
    get: &HTTPGetAction,
    limit: Duration,
) -> Result<(), HttpHookError> {
    let address = context.addresses.first().map(ToString::to_string);
    let has_host = get.host.as_ref().is_some_and(|host| !host.is_empty());
    if address.is_none() && !has_host {
        return Err(HttpHookError::NoAddress);
    }
    // Without an address, the request is sent to the host of the hook.
    let address = address.unwrap_or_default();
    let attempt = http::get(
        get,
        context.container,
        &address,
        RequestPurpose::LifecycleHook,
        limit,
    );
    match attempt.await? {
        ProbeAttempt::Failure(reason) => Err(HttpHookError::NoResponse(reason)),
        ProbeAttempt::Success(_) | ProbeAttempt::Warning(_) => Ok(()),
    }
}

// --- ExecHookError ---

impl ExecHookError {
    /// Output of the command; empty if it did not run.
    fn output(&self) -> &str {
        match self {
            ExecHookError::Runtime(_) => "",
            ExecHookError::Exited { output, .. } => output,
        }
    }
}
