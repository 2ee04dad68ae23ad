//! Plugin `SchedulingGates` (KEP-3521): a pod is not queued while it has scheduling gates.

use super::{ExtensionPoint, SchedulerPlugin};
use crate::{cache::SchedulerCache, cluster_event::ClusterEvent, object::Pod};

#[derive(Debug)]
pub(super) struct SchedulingGates;

impl SchedulerPlugin for SchedulingGates {
    type State = ();

    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::PreEnqueue]
    }

    // upstream: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go isSchedulableAfterUpdateTargetPodSchedulingGatesEliminated
    fn queueing_hint(&self, _: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        matches!(event, ClusterEvent::UnscheduledPodUpdate { old, new } if new.spec.gates.is_empty() && !old.spec.gates.is_empty())
    }

    // upstream: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go PreEnqueue
    fn pre_enqueue(&self, pod: &Pod) -> bool {
        pod.spec.gates.is_empty()
    }
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
        assert!(SchedulingGates.pre_enqueue(&open));
        assert!(!SchedulingGates.pre_enqueue(&closed));
        let queueing_hint = |event| SchedulingGates.queueing_hint(&closed, &event, &sample.cluster);
        assert!(queueing_hint(ClusterEvent::UnscheduledPodUpdate {
            old: &closed,
            new: &open
        }));
        assert!(!queueing_hint(ClusterEvent::UnscheduledPodUpdate {
            old: &open,
            new: &open
        }));
    }
}
