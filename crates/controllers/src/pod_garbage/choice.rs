//! Which pods nobody will end any more, and what is said of them before they go.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    objects::{Condition, Pod},
    patch_values::truncate_to_second,
};

/// The condition of a pod that somebody else than its owner ends.
const TARGET: &str = "DisruptionTarget";

/// Why a pod has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has ended, and there are too many such.
    Ended,
    /// It is going, and never had a node that could see to that.
    Unscheduled,
    /// It is going, and its node is out of service.
    OutOfService,
    /// Its node is gone.
    Orphaned,
}

impl Why {
    /// What it is called in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Why::Ended => "terminated",
            Why::Unscheduled => "unscheduled",
            Why::OutOfService => "out-of-service",
            Why::Orphaned => "orphaned",
        }
    }
}

/// Of the pods that have ended, those beyond `threshold`: the evicted ones first, and then the oldest. 0 is no threshold.
pub(super) fn ended(mut pods: Vec<Arc<Pod>>, threshold: usize) -> Vec<Arc<Pod>> {
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

/// The patch of the status of a pod that has not ended: as it goes, it has failed. Who holds it back with a finalizer sees why.
pub(super) fn failed(pod: &Pod, why: Why, now: Timestamp) -> Value {
    let generation = pod.metadata.generation;
    let mut status = json!({"phase": "Failed", "observedGeneration": generation});
    if why == Why::Orphaned {
        let mut condition = json!({"type": TARGET, "status": "True", "observedGeneration": generation,
            "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"});
        if !Condition::holds(&pod.status.conditions, TARGET) {
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
    fn evicted_pods_go_first_and_then_the_oldest() {
        let pods = vec![
            pod("new", 9, ""),
            pod("old", 1, ""),
            pod("evicted", 10, "Evicted"),
            pod("older", 0, ""),
        ];
        let names = |threshold| -> Vec<String> {
            let gone = ended(pods.clone(), threshold);
            gone.iter().map(|pod| pod.metadata.name.to_string()).collect()
        };
        assert_eq!(names(2), ["evicted", "older"]);
        assert_eq!(names(4), [""; 0]);
        assert_eq!(names(0), [""; 0]);
    }

    #[test]
    fn a_pod_whose_node_is_gone_says_so_of_its_generation() {
        let now = Timestamp::from_second(60).unwrap();
        let pod = |conditions: Value| -> Pod {
            let pod =
                json!({"metadata": {"uid": "u", "generation": 3}, "status": {"conditions": conditions}});
            serde_json::from_value(pod).unwrap()
        };
        let fresh = pod(json!([]));
        assert_eq!(
            failed(&fresh, Why::Unscheduled, now)["status"],
            json!({"phase": "Failed", "observedGeneration": 3})
        );
        assert_eq!(
            failed(&fresh, Why::Orphaned, now),
            json!({"metadata": {"uid": "u"}, "status": {"phase": "Failed", "observedGeneration": 3, "conditions": [
                {"type": TARGET, "status": "True", "observedGeneration": 3, "lastTransitionTime": "1970-01-01T00:01:00Z",
                "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}]}})
        );
        let marked = pod(json!([{"type": TARGET, "status": "True"}]));
        let patch = failed(&marked, Why::Orphaned, now);
        assert_eq!(patch["status"]["conditions"][0].get("lastTransitionTime"), None);
    }
}
