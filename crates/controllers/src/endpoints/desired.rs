//! Computes the Endpoints of a Service.

use std::{collections::BTreeMap, sync::Arc};

use k3_workloads::Pod;

use crate::{
    objects::{AddressPort, EndpointAddress, Endpoints, Service, Subset, Target},
    services::{
        HEADLESS,
        port::{PodPort, ports_of},
        service_pods::{addresses, can_serve, hostname},
        subsets::repack,
    },
};

/// Maximum number of addresses.
const MAX_ADDRESSES: usize = 1000;
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// The desired Endpoints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DesiredEndpoints {
    pub(super) labels: BTreeMap<Box<str>, Box<str>>,
    pub(super) subsets: Vec<Subset>,
    /// Whether addresses were truncated.
    pub(super) is_truncated: bool,
}

// --- DesiredEndpoints ---

impl DesiredEndpoints {
    // upstream: pkg/controller/endpoint/endpoints_controller.go syncService
    pub(super) fn new(service: &Service, pods: &[Arc<Pod>]) -> Self {
        let mut subsets = repack(pods.iter().flat_map(|pod| subsets_of(service, pod)).collect());
        let is_truncated = truncate(&mut subsets, MAX_ADDRESSES);
        DesiredEndpoints {
            labels: labels(service),
            subsets,
            is_truncated,
        }
    }

    /// Whether the Endpoints are up to date. Order is ignored.
    // upstream: pkg/controller/endpoint/endpoints_controller.go endpointSubsetsEqualIgnoreResourceVersion, labelsCorrectForEndpoints
    pub(super) fn is_up_to_date(&self, endpoints: &Endpoints) -> bool {
        // The headless label is ignored: clusterIP is immutable, and clients may set the label.
        let existing = |mut labels: BTreeMap<Box<str>, Box<str>>| {
            labels.remove(HEADLESS);
            labels
        };
        let is_marked = endpoints
            .metadata
            .annotation(super::controller::OVER_CAPACITY)
            .is_some();
        existing(self.labels.clone()) == existing(endpoints.metadata.labels.to_map())
            && self.is_truncated == is_marked
            && (self.subsets == endpoints.subsets || self.subsets == repack(endpoints.subsets.clone()))
    }
}

fn labels(service: &Service) -> BTreeMap<Box<str>, Box<str>> {
    let mut labels = service.metadata.labels.to_map();
    if service.has_address() {
        labels.remove(HEADLESS);
    } else {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

/// One per port of the pod; without ports one, if the Service is headless.
// upstream: pkg/controller/endpoint/endpoints_controller.go addEndpointSubset, endpointPortFromServicePort
fn subsets_of(service: &Service, pod: &Pod) -> Vec<Subset> {
    let publishes = service.spec.publish_not_ready_addresses;
    let is_reported = can_serve(pod) && (publishes || !pod.metadata.is_terminating());
    let Some(address) = is_reported.then(|| address_of(service, pod)).flatten() else {
        return Vec::new();
    };
    let subset = |ports| {
        let mut ready = Vec::new();
        let mut other = Vec::new();
        let list = if publishes || pod.is_ready() {
            &mut ready
        } else {
            &mut other
        };
        list.push(address.clone());
        Subset {
            addresses: ready,
            not_ready_addresses: other,
            ports,
        }
    };
    if service.spec.ports.is_empty() {
        return if service.is_headless() {
            vec![subset(Vec::new())]
        } else {
            Vec::new()
        };
    }
    let port = |(port, number): PodPort<'_>| AddressPort {
        name: port.name.clone(),
        port: number,
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    };
    let ports = ports_of(service, pod).into_iter();
    ports.map(|one| subset(vec![port(one)])).collect()
}

/// The address of the first IP family of the Service.
// upstream: pkg/controller/endpoint/endpoints_controller.go podToEndpointAddressForService
fn address_of(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let address_type = match service.spec.ip_families.first() {
        Some(address_type) => &**address_type,
        None if service.spec.cluster_ip.contains(':') => "IPv6",
        None if !service.has_address() && pod.status.ip.contains(':') => "IPv6",
        None => "IPv4",
    };
    let ip = addresses(pod).find(|ip| ip.is_ipv6() == (address_type == "IPv6"))?;
    Some(EndpointAddress {
        ip: ip.to_string().into(),
        hostname: hostname(pod, service).unwrap_or_default().into(),
        node_name: Some(pod.spec.node_name.clone()),
        target_ref: Some(Target::pod(&pod.metadata)),
    })
}

/// Removes addresses beyond `max`, unready ones first, proportionally from each subset. Returns whether there were any.
// upstream: pkg/controller/endpoint/endpoints_controller.go truncateEndpoints, addressSubset
fn truncate(subsets: &mut [Subset], max: usize) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let other: usize = subsets
        .iter()
        .map(|subset| subset.not_ready_addresses.len())
        .sum();
    if ready + other <= max {
        return false;
    }
    let (capacity, total) = if ready > max {
        (max, ready)
    } else {
        (max - ready, other)
    };
    let mut left = capacity;
    for subset in subsets {
        let list = if ready > max {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.truncate((list.len() * capacity).div_ceil(total).min(left));
        left -= list.len();
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: Value) -> Service {
        let mut service = json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}}});
        service["spec"] = spec;
        serde_json::from_value(service).unwrap()
    }

    fn pod(name: &str, ips: Value, more: Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"nodeName": "n1", "hostname": "h", "subdomain": "web"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        pod["status"]["podIPs"] = ips;
        let pod = k3_api::patch::merge::apply(pod, more).unwrap();
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn groups_addresses_by_ports() {
        let web = service(json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "protocol": "TCP", "targetPort": 8080}, {"name": "x", "protocol": "TCP", "targetPort": "x"}]}));
        let both = json!([{"ip": "fd00::1"}, {"ip": "10.1.0.1"}]);
        let not_ready = json!({"status": {"conditions": []}});
        let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let pods = [
            pod("a", both, json!({})),
            pod("b", json!([{"ip": "10.1.0.2"}]), not_ready),
            pod("c", json!([{"ip": "10.1.0.3"}]), terminating),
            pod("d", json!([{"ip": "fd00::4"}]), json!({})),
            pod(
                "e",
                json!([{"ip": "10.1.0.5"}]),
                json!({"status": {"phase": "Failed"}}),
            ),
        ];
        let desired = DesiredEndpoints::new(&web, &pods);
        let address = |ip: &str, name: &str| {
            json!({"ip": ip, "hostname": "h", "nodeName": "n1",
                "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": name}})
        };
        assert_eq!(
            json!(desired.subsets),
            json!([{
                "addresses": [address("10.1.0.1", "a")],
                "notReadyAddresses": [address("10.1.0.2", "b")],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }])
        );
        let labels = json!({"a": "b", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
        assert_eq!(json!(desired.labels), labels);
    }

    #[test]
    fn headless_service_may_have_no_ports() {
        let web =
            service(json!({"clusterIP": "None", "ipFamilies": ["IPv6"], "publishNotReadyAddresses": true}));
        let terminating =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": []}});
        let desired = DesiredEndpoints::new(&web, &[pod("a", json!([{"ip": "fd00::1"}]), terminating)]);
        assert_eq!(desired.subsets[0].addresses.len(), 1);
        assert_eq!(desired.labels.get(HEADLESS).map(|value| &**value), Some(""));
    }

    #[test]
    fn truncates_addresses_proportionally() {
        let list = |count: usize| vec![EndpointAddress::default(); count];
        let subset = |ready, other| Subset {
            addresses: list(ready),
            not_ready_addresses: list(other),
            ports: Vec::new(),
        };
        for (before, after) in [
            (vec![(5, 5)], vec![(5, 5)]),
            (vec![(8, 5)], vec![(8, 2)]),
            (vec![(8, 5), (6, 1)], vec![(6, 0), (4, 0)]),
            (vec![(2, 9), (2, 3)], vec![(2, 5), (2, 1)]),
        ] {
            let mut subsets: Vec<_> = before
                .iter()
                .map(|(ready, other)| subset(*ready, *other))
                .collect();
            let is_truncated = truncate(&mut subsets, 10);
            let left: Vec<_> = subsets
                .iter()
                .map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()))
                .collect();
            assert_eq!(
                (left, is_truncated),
                (after.clone(), before != after),
                "{before:?}"
            );
        }
    }
}
