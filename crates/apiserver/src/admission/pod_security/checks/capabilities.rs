//! Pod Security checks of capabilities.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, UniqueValues, Violation, containers, quoted};

/// What may be added.
const USUAL: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Containers that add what is not usual.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_capabilities_baseline.go CheckCapabilitiesBaseline
pub(super) fn added(pod: &Pod<'_>) -> Option<Violation> {
    let detail = adds_beyond(pod, &USUAL)?;
    Some(Violation::new("non-default capabilities", detail))
}

/// Containers that keep anything but the right to take a low port.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_capabilities_restricted.go CheckCapabilitiesRestricted
pub(super) fn dropped(pod: &Pod<'_>) -> Option<Violation> {
    let keeping = pod.containers_that(|container| of(container).texts("drop").all(|name| name != "ALL"));
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            containers(&keeping)
        ));
    }
    details.extend(adds_beyond(pod, &["NET_BIND_SERVICE"]));
    if details.is_empty() {
        return None;
    }
    Some(Violation::new("unrestricted capabilities", details.join("; ")))
}

fn adds_beyond(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let mut names = UniqueValues::new();
    let adding = pod.containers_that(|container| {
        let more: Vec<_> = of(container)
            .texts("add")
            .filter(|name| !allowed.contains(name))
            .collect();
        names.extend(more.iter().map(|name| (*name).into()));
        !more.is_empty()
    });
    if adding.is_empty() {
        return None;
    }
    Some(format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers(&adding),
        quoted(&names)
    ))
}

fn of(container: &Value) -> &Value {
    container.at("securityContext").at("capabilities")
}
