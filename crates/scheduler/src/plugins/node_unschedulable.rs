//! Nothing new comes to a node that is closed, but for pods that bear it.

use super::Plugin;
use crate::{
    cluster_event::ClusterEvent,
    object::{Effect, Node, Pod, Taint},
    status::{FilterResult, Rejection},
};

/// Whether a node is open to a pod.
// upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go Filter
pub(super) fn filter(pod: &Pod, node: &Node) -> FilterResult {
    if !node.unschedulable || tolerates(pod) {
        return Ok(());
    }
    Err(Rejection::unresolvable(
        Plugin::NodeUnschedulable,
        "node(s) were unschedulable",
    ))
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go isSchedulableAfterNodeChange
pub(super) fn queueing_hint(event: &ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdd(node) => !node.unschedulable,
        ClusterEvent::NodeUpdate { old, new } => old.unschedulable && !new.unschedulable,
        ClusterEvent::UnscheduledPodUpdate { old, new } => {
            old.spec.tolerations != new.spec.tolerations && tolerates(new)
        }
        _ => false,
    }
}

fn tolerates(pod: &Pod) -> bool {
    let closed = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    };
    closed.borne(&pod.spec.tolerations)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn a_closed_node_takes_only_pods_that_bear_it() {
        let mut sample = TestCluster::default();
        let open = sample.node("open", |_| {});
        let closed = sample.node("closed", |node| node["spec"]["unschedulable"] = true.into());
        let pod = sample.pod("p", |_| {});
        let bearer = sample.pod("b", |pod| {
            pod["spec"]["tolerations"] =
                json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        });
        assert!(filter(&pod, &open).is_ok());
        assert_eq!(
            filter(&pod, &closed).unwrap_err().message(),
            "node(s) were unschedulable"
        );
        assert!(filter(&bearer, &closed).is_ok());
        assert!(queueing_hint(&ClusterEvent::NodeUpdate {
            old: &closed,
            new: &open
        }));
        assert!(!queueing_hint(&ClusterEvent::NodeAdd(&closed)));
    }
}
