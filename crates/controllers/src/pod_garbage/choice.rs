//! Which pods nobody will end any more.

use std::{cmp::Reverse, sync::Arc};

use crate::objects::Pod;

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
}
