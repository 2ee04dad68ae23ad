//! What containers want to be done after their start and before their end.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod};

use super::told;
use crate::{
    probes::{
        Found,
        http::{self, Purpose},
    },
    runtime::{ContainerId, Runtime},
};

/// Whose hook is run.
pub(super) struct Hooked<'a> {
    /// What runs the container.
    pub runtime: &'a dyn Runtime,
    /// Its pod.
    pub pod: &'a Pod,
    /// As the pod describes it.
    pub container: &'a Container,
    /// As the runtime knows it.
    pub id: &'a ContainerId,
    /// The addresses of the pod.
    pub addresses: &'a [IpAddr],
}

/// Runs a hook, at most for `limit`. The error is what the container's status says; it may hold secrets, so events do not.
pub(super) async fn run(hooked: &Hooked<'_>, hook: &LifecycleHandler, limit: Duration) -> Result<(), String> {
    let (container, pod) = (&hooked.container.name, told::name(hooked.pod));
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let failed = |error: String, output: &str| {
            let command = command.join(" ");
            format!(
                "Exec lifecycle hook ([{command}]) for Container \"{container}\" in Pod \"{pod}\" failed - error: {error}, message: {output:?}"
            )
        };
        let output = hooked.runtime.exec_sync(hooked.id, &command, limit).await;
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
        return http_get(hooked, get, limit).await.map_err(failed);
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err("Cannot run handler: invalid handler".to_owned())
}

/// Asks for a page; that somebody answers is enough.
async fn http_get(hooked: &Hooked<'_>, get: &HTTPGetAction, limit: Duration) -> Result<(), String> {
    let address = hooked.addresses.first().map(ToString::to_string);
    let has_host = get.host.as_ref().is_some_and(|host| !host.is_empty());
    if address.is_none() && !has_host {
        return Err("failed to find networking container".to_owned());
    }
    let address = address.unwrap_or_default();
    match http::get(get, hooked.container, &address, Purpose::Lifecycle, limit).await? {
        Found::Unwell(why) => Err(why),
        Found::Well(_) | Found::Warning(_) => Ok(()),
    }
}
