//! Rights beyond those of a container.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, Values, Violation, containers, quoted};

/// Containers that may do everything.
pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.containers_that(|container| container.at("securityContext").flag("privileged"));
    if names.is_empty() {
        return None;
    }
    Some(Violation::new(
        "privileged",
        format!(
            "{} must not set securityContext.privileged=true",
            containers(&names)
        ),
    ))
}

/// Containers that may come to more rights than they begin with.
pub(super) fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.containers_that(|container| {
        container.at("securityContext").at("allowPrivilegeEscalation") != &Value::Bool(false)
    });
    if names.is_empty() {
        return None;
    }
    Some(Violation::new(
        "allowPrivilegeEscalation != false",
        format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            containers(&names)
        ),
    ))
}

/// Containers that see all of /proc.
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = Values::new();
    let names = pod.containers_that(|container| {
        let context = container.at("securityContext");
        let kind = context.text("procMount");
        let is_bad = context.has("procMount") && kind != "Default";
        if is_bad {
            kinds.insert(kind.into());
        }
        is_bad
    });
    if names.is_empty() {
        return None;
    }
    Some(Violation::new(
        "procMount",
        format!(
            "{} must not set securityContext.procMount to {}",
            containers(&names),
            quoted(&kinds)
        ),
    ))
}

/// Processes of a Windows host.
pub(super) fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let doers = pod.doers(|context| context.at("windowsOptions").flag("hostProcess"));
    if doers.is_empty() {
        return None;
    }
    Some(Violation::new(
        "hostProcess",
        format!("{doers} must not set securityContext.windowsOptions.hostProcess=true"),
    ))
}
