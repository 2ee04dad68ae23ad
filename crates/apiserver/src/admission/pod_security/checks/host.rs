//! Pod Security checks of host namespaces, host ports, and hosts in probes.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, UniqueValues, Violation, containers, plural, quoted};

/// Namespaces of the host.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostNamespaces.go CheckHostNamespaces
pub(super) fn namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let shared: Vec<_> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| pod.spec.flag(name))
        .map(|name| format!("{name}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    Some(Violation::new("host namespaces", shared.join(", ")))
}

/// Ports of the host.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostPorts.go CheckHostPorts
pub(super) fn ports(pod: &Pod<'_>) -> Option<Violation> {
    let mut ports = UniqueValues::new();
    let using = pod.containers_that(|container| {
        let of_host: Vec<_> = container
            .items("ports")
            .iter()
            .filter_map(|port| port.int("hostPort"))
            .filter(|port| *port != 0)
            .collect();
        ports.extend(of_host.iter().map(|port| port.to_string().into()));
        !of_host.is_empty()
    });
    if using.is_empty() {
        return None;
    }
    let verb = plural("uses", "use", using.len());
    let noun = plural("hostPort", "hostPorts", ports.len());
    let ports: Vec<_> = ports.into_iter().collect();
    Some(Violation::new(
        "hostPort",
        format!("{} {verb} {noun} {}", containers(&using), ports.join(", ")),
    ))
}

/// Probes and handlers that speak to anybody but the pod.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostProbesAndhostLifecycle.go CheckHostProbesAndHostLifecycle
pub(super) fn probes(pod: &Pod<'_>) -> Option<Violation> {
    let mut hosts = UniqueValues::new();
    let using = pod.containers_that(|container| {
        let lifecycle = container.at("lifecycle");
        let handlers = [
            container.at("livenessProbe"),
            container.at("readinessProbe"),
            container.at("startupProbe"),
            lifecycle.at("postStart"),
            lifecycle.at("preStop"),
        ];
        let named: Vec<_> = handlers.into_iter().flat_map(named_hosts).collect();
        hosts.extend(named.iter().map(|host| (*host).into()));
        !named.is_empty()
    });
    if using.is_empty() {
        return None;
    }
    // In order, without duplicates.
    let using: UniqueValues<'_> = using.into_iter().map(Into::into).collect();
    Some(Violation::new(
        "probe or lifecycle host",
        format!(
            "{} {} {} {} {}",
            plural("container", "containers", using.len()),
            quoted(&using),
            plural("uses", "use", using.len()),
            plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
            quoted(&hosts)
        ),
    ))
}

fn named_hosts(handler: &Value) -> impl Iterator<Item = &str> {
    ["httpGet", "tcpSocket"]
        .into_iter()
        .map(|way| handler.at(way).text("host"))
        .filter(|host| !host.is_empty())
}
