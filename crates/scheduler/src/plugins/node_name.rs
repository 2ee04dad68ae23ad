//! Plugin `NodeName`: `spec.nodeName` allows only that node.

use super::{CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, SchedulerPlugin};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    object::Pod,
    status::{FilterResult, Rejection},
};

#[derive(Debug)]
pub(super) struct NodeName;

impl SchedulerPlugin for NodeName {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[ClusterEventKind::NodeAdd, ClusterEventKind::NodeUpdate]
    }

    fn queueing_hint(&self, _: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        matches!(event, ClusterEvent::NodeAdd(_))
    }

    fn pre_filter(&self, cycle: &CycleContext<'_>, (): &mut ()) -> Result<PreFilterResult, Rejection> {
        let name = cycle.pod.node.clone();
        Ok(name.map_or(PreFilterResult::Skip, |name| PreFilterResult::Only(vec![name])))
    }

    // upstream: pkg/scheduler/framework/plugins/nodename/node_name.go Filter, Fits
    fn filter(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
        match &cycle.pod.node {
            Some(name) if *name != node.info.name => Err(Rejection::unresolvable(
                "node(s) didn't match the requested node name",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn only_the_named_node_does() {
        let mut sample = TestCluster::default();
        sample.node("a", |_| {});
        sample.node("b", |_| {});
        let pod = sample.pod("p", |_| {});
        let filter = |pod: &Pod, node| NodeName.filter(&sample.cycle(pod), &(), &sample.candidate(node));
        assert!(filter(&pod, "a").is_ok());
        let pod = pod.on("a".into());
        assert!(filter(&pod, "a").is_ok());
        let rejection = filter(&pod, "b").unwrap_err();
        assert_eq!(
            rejection.message(),
            "node(s) didn't match the requested node name"
        );
    }
}
