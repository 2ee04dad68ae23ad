//! Desired endpoints of a Service.

use std::{collections::BTreeMap, sync::Arc};

use k3_workloads::{Node, Pod};

use crate::{
    objects::{Endpoint, EndpointConditions, Service, SlicePort, Target},
    services::{
        endpoint_key::{EndpointKey, EndpointSet},
        port::{PodPort, ports_of},
        port_order,
        service_pods::{addresses, can_serve, hostname},
    },
};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Endpoints by the ports that they have.
pub(super) type ByPorts = BTreeMap<Vec<SlicePort>, EndpointSet>;

/// The desired endpoints of a Service in an address family, and the pods that are skipped because their node does not exist
/// in the informer's cache.
// upstream: staging/src/k8s.io/endpointslice/reconciler.go reconcileByAddressType
pub(super) fn endpoints<'a>(
    service: &Service,
    pods: &'a [Arc<Pod>],
    address_type: &str,
    node: impl Fn(&str) -> Option<Arc<Node>>,
) -> (ByPorts, Vec<&'a Pod>) {
    let mut desired = ByPorts::new();
    let mut skipped_pods = Vec::new();
    for pod in pods.iter().filter(|pod| can_serve(pod)) {
        let set = desired
            .entry(port_order::slice_ports(ports(service, pod)))
            .or_default();
        let node = node(&pod.spec.node_name);
        if node.is_none() && !service.spec.publish_not_ready_addresses {
            skipped_pods.push(&**pod);
            continue;
        }
        let endpoint = endpoint(service, pod, address_type, node.as_deref());
        if !endpoint.addresses.is_empty() {
            set.insert(EndpointKey::of(&endpoint), endpoint);
        }
    }
    (desired, skipped_pods)
}

// upstream: staging/src/k8s.io/endpointslice/utils.go getEndpointPorts
fn ports(service: &Service, pod: &Pod) -> Vec<SlicePort> {
    let ports = ports_of(service, pod).into_iter();
    let slice_port = |(port, number): PodPort<'_>| SlicePort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(number),
        app_protocol: port.app_protocol.clone(),
    };
    ports.map(slice_port).collect()
}

// upstream: staging/src/k8s.io/endpointslice/utils.go podToEndpoint
fn endpoint(service: &Service, pod: &Pod, address_type: &str, node: Option<&Node>) -> Endpoint {
    let meta = &pod.metadata;
    let serving = pod.is_ready();
    let terminating = meta.is_terminating();
    // A consumer that reads only `ready` must not send traffic to a terminating pod.
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    let own = addresses(pod).filter(|ip| ip.is_ipv6() == (address_type == "IPv6"));
    let zone = node.and_then(|node| node.metadata.label(ZONE));
    Endpoint {
        addresses: own.map(|ip| ip.to_string().into()).collect(),
        conditions: EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        },
        hostname: hostname(pod, service).map(Into::into),
        target_ref: Some(Target::pod(&pod.metadata)),
        node_name: (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.clone()),
        zone: zone.filter(|zone| !zone.is_empty()).map(Into::into),
        hints: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, more: Value) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"nodeName": "n1"},
            "status": {"podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}], "conditions": [{"type": "Ready", "status": "True"}]},
        });
        Arc::new(serde_json::from_value(k3_api::patch::merge::apply(pod, more).unwrap()).unwrap())
    }

    fn service(spec: Value) -> Service {
        let mut service = json!({"metadata": {"name": "web", "namespace": "shop"}});
        service["spec"] = spec;
        serde_json::from_value(service).unwrap()
    }

    fn node(name: &str) -> Option<Arc<Node>> {
        let node = json!({"metadata": {"name": name, "labels": {ZONE: "z"}}});
        (name == "n1").then(|| Arc::new(serde_json::from_value(node).unwrap()))
    }

    #[test]
    fn sets_endpoint_conditions_from_the_pod() {
        let being_deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let not_ready = json!({"status": {"conditions": null}});
        for (more, publishes, conditions) in [
            (json!({}), false, [true, true, false]),
            (being_deleted.clone(), false, [false, true, true]),
            (not_ready.clone(), false, [false, false, false]),
            (not_ready, true, [true, false, false]),
            (being_deleted, true, [true, true, true]),
        ] {
            let web = service(json!({"publishNotReadyAddresses": publishes}));
            let (desired, _) = endpoints(&web, &[pod("a", more.clone())], "IPv4", node);
            let endpoint = desired[&vec![]].values().next().unwrap();
            let EndpointConditions {
                ready,
                serving,
                terminating,
            } = endpoint.conditions;
            assert_eq!([ready, serving, terminating], conditions.map(Some), "{more}");
            assert_eq!(
                (&*endpoint.addresses[0], endpoint.zone.as_deref()),
                ("10.1.0.1", Some("z"))
            );
        }
    }

    #[test]
    fn groups_endpoints_by_ports() {
        let web = service(json!({"ports": [{"name": "http", "protocol": "TCP", "targetPort": "http"}]}));
        let port = |number: u16| json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": number, "protocol": "TCP"}]}]}});
        let pods = [
            pod("a", port(80)),
            pod("b", port(81)),
            pod("c", port(80)),
            pod("d", json!({})),
        ];
        let (desired, _) = endpoints(&web, &pods, "IPv6", node);
        let sizes: Vec<_> = desired
            .iter()
            .map(|(ports, set)| (ports.first().and_then(|port| port.port), set.len()))
            .collect();
        assert_eq!(sizes, [(None, 1), (Some(80), 2), (Some(81), 1)]);
    }

    #[test]
    fn skips_pods_on_unknown_nodes() {
        let pods = [pod("a", json!({"spec": {"nodeName": "n2"}}))];
        let (desired, skipped_pods) = endpoints(&service(json!({})), &pods, "IPv4", node);
        assert_eq!((desired[&vec![]].len(), skipped_pods.len()), (0, 1));
        let web = service(json!({"publishNotReadyAddresses": true}));
        let (desired, skipped_pods) = endpoints(&web, &pods, "IPv4", node);
        assert_eq!((desired[&vec![]].len(), skipped_pods.len()), (1, 0));
    }
}
