//! What is known of a node that fell silent.

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::health::{NEVER_HEARD, SILENT};
use crate::{
    objects::{Condition, ConditionStatus, Node},
    patch_values::truncate_to_second,
};

/// The conditions that only the node itself can know.
const ITS_OWN: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The conditions of a node that is silent; `None` if it is known already that it is.
pub(super) fn unknown(node: &Node, now: Timestamp) -> Option<Vec<Condition>> {
    if node.condition("Ready") == Some(ConditionStatus::Unknown) {
        return None;
    }
    let now = Some(truncate_to_second(now));
    let mut conditions = node.status.conditions.clone();
    for kind in ITS_OWN {
        match conditions.iter_mut().find(|condition| &*condition.kind == kind) {
            Some(condition) if condition.status != ConditionStatus::Unknown => {
                condition.status = ConditionStatus::Unknown;
                condition.reason = SILENT.into();
                condition.message = "Kubelet stopped posting node status.".into();
                condition.last_transition_time = now;
            }
            Some(_) => {}
            None => {
                let mut condition = Condition {
                    kind: kind.into(),
                    status: ConditionStatus::Unknown,
                    reason: NEVER_HEARD.into(),
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
