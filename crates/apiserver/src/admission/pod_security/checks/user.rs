//! Pod Security checks of runAsNonRoot and runAsUser.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, Violation, containers};

/// Containers that may run as root.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_runAsNonRoot.go CheckRunAsNonRoot
pub(super) fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let said = |context: &Value| context.at("runAsNonRoot").as_bool();
    let offenders = pod.offenders(|context| said(context) == Some(false));
    if !offenders.is_empty() {
        let detail = format!("{offenders} must not set securityContext.runAsNonRoot=false");
        return Some(Violation::new(REASON, detail));
    }
    if said(pod.spec.at("securityContext")) == Some(true) {
        return None;
    }
    let silent = pod.containers_that(|container| said(container.at("securityContext")).is_none());
    if silent.is_empty() {
        return None;
    }
    let silent = containers(&silent);
    Some(Violation::new(
        REASON,
        format!("pod or {silent} must set securityContext.runAsNonRoot=true"),
    ))
}

/// Containers that do run as root.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_runAsUser.go CheckRunAsUser
pub(super) fn not_zero(pod: &Pod<'_>) -> Option<Violation> {
    let offenders = pod.offenders(|context| context.int("runAsUser") == Some(0));
    if offenders.is_empty() {
        return None;
    }
    Some(Violation::new(
        "runAsUser=0",
        format!("{offenders} must not set runAsUser=0"),
    ))
}
