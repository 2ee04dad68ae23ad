//! Selects pods to delete, and builds the status they get before deletion.

use std::{cmp::Reverse, sync::Arc};

use k3_workloads::{Condition, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::patch_values::truncate_to_second;

/// Condition of a pod that is deleted by someone other than its owner.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionReason {
    /// Terminated, and beyond the threshold.
    Terminated,
    /// Terminating, and never scheduled to a node.
    Unscheduled,
    /// Terminating, and its node is out of service.
    OutOfService,
    /// Its node does not exist.
    Orphaned,
}

impl DeletionReason {
    /// The value of the metric label `reason`.
    pub(super) fn name(self) -> &'static str {
        match self {
            DeletionReason::Terminated => "terminated",
            DeletionReason::Unscheduled => "unscheduled",
            DeletionReason::OutOfService => "out-of-service",
            DeletionReason::Orphaned => "orphaned",
        }
    }
}

/// Terminated pods beyond `threshold`: evicted ones first, then the oldest. 0 means no threshold.
// upstream: pkg/controller/podgc/gc_controller.go gcTerminated, byEvictionAndCreationTimestamp
pub(super) fn terminated_beyond_threshold(mut pods: Vec<Arc<Pod>>, threshold: usize) -> Vec<Arc<Pod>> {
    if threshold == 0 || pods.len() <= threshold {
        return Vec::new();
    }
    let too_many = pods.len() - threshold;
    pods.sort_by(|one, other| {
        let order = |pod: &Pod| {
            let is_evicted = &*pod.status.reason == "Evicted";
            (
                Reverse(is_evicted),
                pod.metadata.creation_timestamp,
                pod.metadata.name.clone(),
            )
        };
        order(one).cmp(&order(other))
    });
    pods.truncate(too_many);
    pods
}

/// The status patch for a pod that has not terminated: phase Failed, so that the owner of a finalizer sees the reason.
// upstream: pkg/controller/podgc/gc_controller.go markFailedAndDeletePodWithCondition
pub(super) fn failed_status_patch(pod: &Pod, why: DeletionReason, now: Timestamp) -> Value {
    let generation = pod.metadata.generation;
    let mut status = json!({"phase": "Failed", "observedGeneration": generation});
    if why == DeletionReason::Orphaned {
        let mut condition = json!({"type": DISRUPTION_TARGET, "status": "True", "observedGeneration": generation,
            "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"});
        if !Condition::holds(&pod.status.conditions, DISRUPTION_TARGET) {
            condition["lastTransitionTime"] = json!(truncate_to_second(now));
        }
        status["conditions"] = json!([condition]);
    }
    json!({"metadata": {"uid": pod.metadata.uid}, "status": status})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, second: i64, reason: &str) -> Arc<Pod> {
        let created = k8s_openapi::jiff::Timestamp::from_second(second).unwrap();
        let pod = serde_json::json!({"metadata": {"name": name, "creationTimestamp": created.to_string()},
            "status": {"phase": "Failed", "reason": reason}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn deletes_evicted_then_oldest_pods() {
        let pods = vec![
            pod("new", 9, ""),
            pod("old", 1, ""),
            pod("evicted", 10, "Evicted"),
            pod("older", 0, ""),
        ];
        let names = |threshold| -> Vec<String> {
            let deleted = terminated_beyond_threshold(pods.clone(), threshold);
            deleted.iter().map(|pod| pod.metadata.name.to_string()).collect()
        };
        assert_eq!(names(2), ["evicted", "older"]);
        assert_eq!(names(4), [""; 0]);
        assert_eq!(names(0), [""; 0]);
    }

    #[test]
    fn marks_orphaned_pods_failed() {
        let now = Timestamp::from_second(60).unwrap();
        let pod = |conditions: Value| -> Pod {
            let pod =
                json!({"metadata": {"uid": "u", "generation": 3}, "status": {"conditions": conditions}});
            serde_json::from_value(pod).unwrap()
        };
        let fresh = pod(json!([]));
        assert_eq!(
            failed_status_patch(&fresh, DeletionReason::Unscheduled, now)["status"],
            json!({"phase": "Failed", "observedGeneration": 3})
        );
        assert_eq!(
            failed_status_patch(&fresh, DeletionReason::Orphaned, now),
            json!({"metadata": {"uid": "u"}, "status": {"phase": "Failed", "observedGeneration": 3, "conditions": [
                {"type": DISRUPTION_TARGET, "status": "True", "observedGeneration": 3, "lastTransitionTime": "1970-01-01T00:01:00Z",
                "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}]}})
        );
        let marked = pod(json!([{"type": DISRUPTION_TARGET, "status": "True"}]));
        let patch = failed_status_patch(&marked, DeletionReason::Orphaned, now);
        assert_eq!(patch["status"]["conditions"][0].get("lastTransitionTime"), None);
    }
}
