//! Conditions of a node that stopped posting status.

use k3_workloads::{Condition, ConditionStatus, Node};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::health::{NEVER_UPDATED_REASON, STATUS_UNKNOWN_REASON};
use crate::patch_values::truncate_to_second;

/// Conditions that only the kubelet can report.
const KUBELET_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The conditions with status Unknown; `None` if they are already.
// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth
pub(super) fn unknown_conditions(node: &Node, now: Timestamp) -> Option<Vec<Condition>> {
    if node.condition("Ready") == Some(ConditionStatus::Unknown) {
        return None;
    }
    let now = Some(truncate_to_second(now));
    let mut conditions = node.status.conditions.clone();
    for kind in KUBELET_CONDITIONS {
        match conditions.iter_mut().find(|condition| &*condition.kind == kind) {
            Some(condition) if condition.status != ConditionStatus::Unknown => {
                condition.status = ConditionStatus::Unknown;
                condition.reason = STATUS_UNKNOWN_REASON.into();
                condition.message = "Kubelet stopped posting node status.".into();
                condition.last_transition_time = now;
            }
            Some(_) => {}
            None => {
                let mut condition = Condition {
                    kind: kind.into(),
                    status: ConditionStatus::Unknown,
                    reason: NEVER_UPDATED_REASON.into(),
                    message: "Kubelet never posted node status.".into(),
                    last_transition_time: now,
                    ..Condition::default()
                };
                let since = json!(node.metadata.creation_timestamp);
                condition.other.insert("lastHeartbeatTime".to_owned(), since);
                conditions.push(condition);
            }
        }
    }
    Some(conditions)
}
