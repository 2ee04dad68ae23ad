//! Pod Security checks of privileged containers, privilege escalation and procMount.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, UniqueValues, Violation, containers, quoted};

/// Containers that may do everything.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_privileged.go CheckPrivileged
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

/// Containers that allow privilege escalation.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_allowPrivilegeEscalation.go CheckAllowPrivilegeEscalation
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
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_procMount_baseline.go CheckProcMountBaseline
pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = UniqueValues::new();
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
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_windowsHostProcess.go CheckWindowsHostProcess
pub(super) fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let offenders = pod.offenders(|context| context.at("windowsOptions").flag("hostProcess"));
    if offenders.is_empty() {
        return None;
    }
    Some(Violation::new(
        "hostProcess",
        format!("{offenders} must not set securityContext.windowsOptions.hostProcess=true"),
    ))
}
