//! Plugin `NodeName`: `spec.nodeName` allows only that node.

use super::Plugin;
use crate::{
    cache::NodeInfo,
    cluster_event::ClusterEvent,
    object::Pod,
    status::{FilterResult, Rejection},
};

/// Whether a node is the one.
// upstream: pkg/scheduler/framework/plugins/nodename/node_name.go Filter, Fits
pub(super) fn filter(pod: &Pod, info: &NodeInfo) -> FilterResult {
    match &pod.node {
        Some(node) if *node != info.name => Err(Rejection::unresolvable(
            Plugin::NodeName,
            "node(s) didn't match the requested node name",
        )),
        _ => Ok(()),
    }
}

/// Whether something helps a pod that was rejected.
pub(super) fn queueing_hint(event: &ClusterEvent<'_>) -> bool {
    matches!(event, ClusterEvent::NodeAdd(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn only_the_named_node_does() {
        let mut sample = TestCluster::default();
        let pod = sample.pod("p", |_| {});
        let named = NodeInfo::named("a".into());
        let other = NodeInfo::named("b".into());
        assert!(filter(&pod, &named).is_ok());
        let pod = pod.on("a".into());
        assert!(filter(&pod, &named).is_ok());
        let rejection = filter(&pod, &other).unwrap_err();
        assert_eq!(
            rejection.message(),
            "node(s) didn't match the requested node name"
        );
    }
}
