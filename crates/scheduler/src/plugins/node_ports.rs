//! Plugin `NodePorts`: a host port of a node is used by one pod only.

use super::{CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, SchedulerPlugin};
use crate::{
    cache::{SchedulerCache, ports_conflict},
    cluster_event::{ClusterEvent, ClusterEventKind},
    object::Pod,
    status::{FilterResult, Rejection},
};

#[derive(Debug)]
pub(super) struct NodePorts;

impl SchedulerPlugin for NodePorts {
    type State = ();

    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::NodeAdd,
            ClusterEventKind::NodeUpdate,
            ClusterEventKind::AssignedPodDelete,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go isSchedulableAfterAssignedPodDeleted
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::NodeAdd(_) => true,
            ClusterEvent::AssignedPodDelete(deleted) => {
                let frees = |port| deleted.spec.ports.iter().any(|freed| ports_conflict(freed, port));
                pod.spec.ports.iter().any(frees)
            }
            _ => false,
        }
    }

    fn pre_filter(&self, cycle: &CycleContext<'_>, (): &mut ()) -> Result<PreFilterResult, Rejection> {
        Ok(PreFilterResult::all_if(!cycle.pod.spec.ports.is_empty()))
    }

    // upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go Filter, fitsPorts
    fn filter(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
        if cycle.pod.spec.ports.iter().any(|port| node.info.port_taken(port)) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Err(Rejection::unschedulable(reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{cache::NodeInfo, object::Node, test_cluster::TestCluster};

    #[test]
    fn a_port_is_taken_by_address_and_protocol() {
        let mut sample = TestCluster::default();
        let mut pod = |port: u16, protocol: &str, address: &str| {
            sample.pod("p", |pod| {
                pod["spec"]["containers"][0]["ports"] =
                    json!([{"hostPort": port, "protocol": protocol, "hostIP": address}]);
            })
        };
        for (taken, asked, fits) in [
            (pod(80, "TCP", ""), pod(81, "TCP", ""), true),
            (pod(80, "TCP", ""), pod(80, "TCP", ""), false),
            (pod(80, "TCP", ""), pod(80, "UDP", ""), true),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", "10.0.0.2"), true),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", "10.0.0.1"), false),
            (pod(80, "TCP", "10.0.0.1"), pod(80, "TCP", ""), false),
            (pod(80, "TCP", "0.0.0.0"), pod(80, "TCP", "10.0.0.1"), false),
        ] {
            let node = Node::default();
            let mut info = NodeInfo::named("n".into());
            info.add(Arc::new(taken.clone()));
            let cluster = SchedulerCache::default();
            let cycle = CycleContext {
                pod: &asked,
                cluster: &cluster,
            };
            let filter = |info: &NodeInfo| {
                let candidate = CandidateNode {
                    slot: 0,
                    info,
                    node: &node,
                };
                NodePorts.filter(&cycle, &(), &candidate)
            };
            assert_eq!(
                filter(&info).is_ok(),
                fits,
                "{:?} {:?}",
                taken.spec.ports,
                asked.spec.ports
            );
            assert_eq!(
                NodePorts.queueing_hint(&asked, &ClusterEvent::AssignedPodDelete(&taken), &cluster),
                !fits
            );
            info.remove(&taken.uid);
            assert!(filter(&info).is_ok());
        }
    }
}
