//! Lifecycle hooks `postStart` and `preStop`.
// upstream: pkg/kubelet/lifecycle/handlers.go handlerRunner

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod};

use super::events;
use crate::{
    probes::{
        ProbeAttempt,
        http::{self, RequestPurpose},
    },
    runtime::{ContainerId, Runtime},
};

/// The container whose hook runs.
pub(super) struct HookContext<'a> {
    pub runtime: &'a dyn Runtime,
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub id: &'a ContainerId,
    pub addresses: &'a [IpAddr],
}

/// Runs a hook, at most for `limit`. The error is reported in the container status only, not in an event: it may
/// contain secrets.
// upstream: pkg/kubelet/lifecycle/handlers.go Run
pub(super) async fn run_hook(
    context: &HookContext<'_>,
    hook: &LifecycleHandler,
    limit: Duration,
) -> Result<(), String> {
    let container = &context.container.name;
    let pod = events::format_pod(context.pod);
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let failed = |error: String, output: &str| {
            let command = command.join(" ");
            format!(
                "Exec lifecycle hook ([{command}]) for Container \"{container}\" in Pod \"{pod}\" failed - error: {error}, message: {output:?}"
            )
        };
        let output = context.runtime.exec_sync(context.id, &command, limit).await;
        let output = output.map_err(|error| failed(error.to_string(), ""))?;
        if output.code != 0 {
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            let error = format!(
                "command '{}' exited with {}: {}",
                command.join(" "),
                output.code,
                text.trim_end()
            );
            return Err(failed(error, &text));
        }
        return Ok(());
    }
    if let Some(get) = &hook.http_get {
        let path = get.path.as_deref().unwrap_or_default();
        let failed = |error| {
            format!(
                "HTTP lifecycle hook ({path}) for Container \"{container}\" in Pod \"{pod}\" failed - error: {error}"
            )
        };
        return http_get(context, get, limit).await.map_err(failed);
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err("Cannot run handler: invalid handler".to_owned())
}

/// Sends an HTTP request; any response counts as success.
// upstream: pkg/kubelet/lifecycle/handlers.go runHTTPHandler
async fn http_get(context: &HookContext<'_>, get: &HTTPGetAction, limit: Duration) -> Result<(), String> {
    let address = context.addresses.first().map(ToString::to_string);
    let has_host = get.host.as_ref().is_some_and(|host| !host.is_empty());
    if address.is_none() && !has_host {
        return Err("failed to find networking container".to_owned());
    }
    let address = address.unwrap_or_default();
    match http::get(
        get,
        context.container,
        &address,
        RequestPurpose::LifecycleHook,
        limit,
    )
    .await?
    {
        ProbeAttempt::Failure(reason) => Err(reason),
        ProbeAttempt::Success(_) | ProbeAttempt::Warning(_) => Ok(()),
    }
}
