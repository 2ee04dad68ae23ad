//! A pod with gates waits until they are gone.

use super::Plugin;
use crate::{cluster_event::ClusterEvent, object::Pod};

/// Who keeps a pod from being tried at all.
// upstream: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go PreEnqueue
pub(crate) fn gated(pod: &Pod) -> Option<Plugin> {
    (!pod.spec.gates.is_empty()).then_some(Plugin::SchedulingGates)
}

/// Whether something helps a pod that waits.
// upstream: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go isSchedulableAfterUpdateTargetPodSchedulingGatesEliminated
pub(super) fn queueing_hint(event: &ClusterEvent<'_>) -> bool {
    matches!(event, ClusterEvent::UnscheduledPodUpdate { old, new } if new.spec.gates.is_empty() && !old.spec.gates.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn a_pod_waits_for_its_gates() {
        let mut sample = TestCluster::default();
        let open = sample.pod("p", |_| {});
        let closed = sample.pod("p", |pod| {
            pod["spec"]["schedulingGates"] = serde_json::json!([{"name": "g"}]);
        });
        assert_eq!(gated(&open), None);
        assert_eq!(gated(&closed), Some(Plugin::SchedulingGates));
        assert!(queueing_hint(&ClusterEvent::UnscheduledPodUpdate {
            old: &closed,
            new: &open
        }));
        assert!(!queueing_hint(&ClusterEvent::UnscheduledPodUpdate {
            old: &open,
            new: &open
        }));
    }
}
