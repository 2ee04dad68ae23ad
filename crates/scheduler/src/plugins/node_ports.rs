//! A port of a node can be had once.

use super::Plugin;
use crate::{
    cache::{NodeInfo, ports_conflict},
    cluster_event::ClusterEvent,
    object::Pod,
    status::{FilterResult, Rejection},
};

/// Whether the ports that a pod needs are free.
// upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go Filter, fitsPorts
pub(super) fn filter(pod: &Pod, info: &NodeInfo) -> FilterResult {
    if pod.spec.ports.iter().any(|port| info.port_taken(port)) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(Rejection::unschedulable(Plugin::NodePorts, reason));
    }
    Ok(())
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/nodeports/node_ports.go isSchedulableAfterAssignedPodDeleted
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdd(_) => true,
        ClusterEvent::AssignedPodDelete(gone) => {
            let frees = |port| gone.spec.ports.iter().any(|freed| ports_conflict(freed, port));
            pod.spec.ports.iter().any(frees)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

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
            let mut info = NodeInfo::named("n".into());
            info.add(Arc::new(taken.clone()));
            assert_eq!(
                filter(&asked, &info).is_ok(),
                fits,
                "{:?} {:?}",
                taken.spec.ports,
                asked.spec.ports
            );
            assert_eq!(
                queueing_hint(&asked, &ClusterEvent::AssignedPodDelete(&taken)),
                !fits
            );
            info.remove(&taken.uid);
            assert!(filter(&asked, &info).is_ok());
        }
    }
}
