//! Whom containers run as.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, Violation, containers};

/// Containers that may run as root.
pub(super) fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let said = |context: &Value| context.at("runAsNonRoot").as_bool();
    let doers = pod.doers(|context| said(context) == Some(false));
    if !doers.is_empty() {
        let detail = format!("{doers} must not set securityContext.runAsNonRoot=false");
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
pub(super) fn not_zero(pod: &Pod<'_>) -> Option<Violation> {
    let doers = pod.doers(|context| context.int("runAsUser") == Some(0));
    if doers.is_empty() {
        return None;
    }
    Some(Violation::new(
        "runAsUser=0",
        format!("{doers} must not set runAsUser=0"),
    ))
}
