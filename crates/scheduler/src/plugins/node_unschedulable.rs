//! Plugin `NodeUnschedulable`: cordoned nodes accept only pods that tolerate `node.kubernetes.io/unschedulable`.

use k3_workloads::Taint;

use super::{CandidateNode, CycleContext, ExtensionPoint, SchedulerPlugin};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    object::Pod,
    status::{FilterResult, Rejection},
};

#[derive(Debug)]
pub(super) struct NodeUnschedulable;

impl SchedulerPlugin for NodeUnschedulable {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[ClusterEventKind::NodeAdd, ClusterEventKind::NodeUpdate]
    }

    // upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go isSchedulableAfterNodeChange
    fn queueing_hint(&self, _: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::NodeAdd(node) => !node.unschedulable,
            ClusterEvent::NodeUpdate { old, new } => old.unschedulable && !new.unschedulable,
            ClusterEvent::UnscheduledPodUpdate { old, new } => {
                old.spec.tolerations != new.spec.tolerations && tolerates(new)
            }
            _ => false,
        }
    }

    // upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go Filter
    fn filter(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
        if !node.node.unschedulable || tolerates(cycle.pod) {
            return Ok(());
        }
        Err(Rejection::unresolvable("node(s) were unschedulable"))
    }
}

fn tolerates(pod: &Pod) -> bool {
    let closed = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: Taint::NO_SCHEDULE.into(),
        ..Taint::default()
    };
    closed.is_tolerated_by(&pod.spec.tolerations)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn cordoned_node_accepts_only_tolerating_pods() {
        let mut sample = TestCluster::default();
        let plugin = NodeUnschedulable;
        let open = sample.node("open", |_| {});
        let closed = sample.node("closed", |node| node["spec"]["unschedulable"] = true.into());
        let pod = sample.pod("p", |_| {});
        let bearer = sample.pod("b", |pod| {
            pod["spec"]["tolerations"] =
                json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        });
        let filter = |pod: &Pod, node| plugin.filter(&sample.cycle(pod), &(), &sample.candidate(node));
        assert!(filter(&pod, "open").is_ok());
        assert_eq!(
            filter(&pod, "closed").unwrap_err().message(),
            "node(s) were unschedulable"
        );
        assert!(filter(&bearer, "closed").is_ok());
        let queueing_hint = |event| plugin.queueing_hint(&pod, &event, &sample.cluster);
        assert!(queueing_hint(ClusterEvent::NodeUpdate {
            old: &closed,
            new: &open
        }));
        assert!(!queueing_hint(ClusterEvent::NodeAdd(&closed)));
    }
}
