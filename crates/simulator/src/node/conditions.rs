//! The conditions of nodes.

use k3_workloads::{Condition, Node};
use k8s_openapi::jiff::Timestamp;

/// The conditions that a kubelet reports: type, status, reason and message.
pub(super) const REPORTED_CONDITIONS: [(&str, bool, &str, &str); 4] = [
    (
        "MemoryPressure",
        false,
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    (
        "DiskPressure",
        false,
        "KubeletHasNoDiskPressure",
        "kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        false,
        "KubeletHasSufficientPID",
        "kubelet has sufficient PID available",
    ),
    ("Ready", true, "KubeletReady", "kubelet is posting ready status"),
];

/// `lastHeartbeatTime` of the condition `Ready`.
pub(super) fn last_heartbeat(node: &Node) -> Option<Timestamp> {
    let ready = Condition::find(&node.status.conditions, "Ready")?;
    ready.other.get("lastHeartbeatTime")?.as_str()?.parse().ok()
}
