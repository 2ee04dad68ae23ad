//! Pod Security check of sysctls.

use k3_api::strategy::Tree;

use super::super::violation::{Pod, Violation};

/// Settings that do not, the oldest first.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    // From v1.27 on.
    "net.ipv4.ip_local_reserved_ports",
    // From v1.29 on.
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    // From v1.32 on.
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    // From v1.37 on.
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
];

// upstream: staging/src/k8s.io/pod-security-admission/policy/check_sysctls.go CheckSysctls
pub(super) fn from_0(pod: &Pod<'_>) -> Option<Violation> {
    beyond(pod, &SAFE[..5])
}

pub(super) fn from_27(pod: &Pod<'_>) -> Option<Violation> {
    beyond(pod, &SAFE[..6])
}

pub(super) fn from_29(pod: &Pod<'_>) -> Option<Violation> {
    beyond(pod, &SAFE[..10])
}

pub(super) fn from_32(pod: &Pod<'_>) -> Option<Violation> {
    beyond(pod, &SAFE[..12])
}

pub(super) fn from_37(pod: &Pod<'_>) -> Option<Violation> {
    beyond(pod, &SAFE)
}

fn beyond(pod: &Pod<'_>, safe: &[&str]) -> Option<Violation> {
    let forbidden: Vec<_> = pod
        .spec
        .at("securityContext")
        .items("sysctls")
        .iter()
        .map(|sysctl| sysctl.text("name"))
        .filter(|name| !safe.contains(name))
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    Some(Violation::new("forbidden sysctls", forbidden.join(", ")))
}
