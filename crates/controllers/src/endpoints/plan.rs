//! What is to be told of a service.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    objects::{Address, AddressPort, Endpoints, Pod, Service, Subset, Target},
    services::{
        HEADLESS,
        port::{PodPort, ports_of},
        service_pods::{addresses, can_serve, hostname},
        subsets::repack,
    },
};

/// More addresses than this are not told.
const MOST: usize = 1000;
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

/// What is to be told of a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) labels: BTreeMap<Box<str>, Box<str>>,
    pub(super) subsets: Vec<Subset>,
    /// Whether there are more addresses than are told.
    pub(super) is_cut: bool,
}

// --- Plan ---

impl Plan {
    pub(super) fn new(service: &Service, pods: &[Arc<Pod>]) -> Self {
        let mut subsets = repack(pods.iter().flat_map(|pod| subsets_of(service, pod)).collect());
        let is_cut = cut(&mut subsets, MOST);
        Plan {
            labels: labels(service),
            subsets,
            is_cut,
        }
    }

    /// Whether that is told already. Others may have told it in another order.
    pub(super) fn is_told(&self, endpoints: &Endpoints) -> bool {
        // Whether a service has an address does not change, and others may say what they like of it.
        let known = |labels: &BTreeMap<Box<str>, Box<str>>| {
            let mut labels = labels.clone();
            labels.remove(HEADLESS);
            labels
        };
        let is_marked = endpoints
            .metadata
            .annotation(super::keeper::OVER_CAPACITY)
            .is_some();
        known(&self.labels) == known(&endpoints.metadata.labels)
            && self.is_cut == is_marked
            && (self.subsets == endpoints.subsets || self.subsets == repack(endpoints.subsets.clone()))
    }
}

fn labels(service: &Service) -> BTreeMap<Box<str>, Box<str>> {
    let mut labels = (*service.metadata.labels).clone();
    if service.has_address() {
        labels.remove(HEADLESS);
    } else {
        labels.insert(HEADLESS.into(), "".into());
    }
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    labels
}

/// One for each port that a pod has; without ports one, if the service has no address.
fn subsets_of(service: &Service, pod: &Pod) -> Vec<Subset> {
    let publishes = service.spec.publish_not_ready_addresses;
    let is_told = can_serve(pod) && (publishes || !pod.metadata.is_going());
    let Some(address) = is_told.then(|| address_of(service, pod)).flatten() else {
        return Vec::new();
    };
    let subset = |ports| {
        let (mut ready, mut other) = (Vec::new(), Vec::new());
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

/// The address of the first family of the service.
fn address_of(service: &Service, pod: &Pod) -> Option<Address> {
    let family = match service.spec.ip_families.first() {
        Some(family) => &**family,
        None if service.spec.cluster_ip.contains(':') => "IPv6",
        None if !service.has_address() && pod.status.ip.contains(':') => "IPv6",
        None => "IPv4",
    };
    let ip = addresses(pod).find(|ip| ip.is_ipv6() == (family == "IPv6"))?;
    Some(Address {
        ip: ip.to_string().into(),
        hostname: hostname(pod, service).unwrap_or_default().into(),
        node_name: Some(pod.spec.node_name.clone()),
        target_ref: Some(Target::pod(&pod.metadata)),
    })
}

/// Takes away addresses beyond `most`, those that are not ready first, from each subset in proportion. Says whether there
/// were any.
fn cut(subsets: &mut [Subset], most: usize) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let other: usize = subsets
        .iter()
        .map(|subset| subset.not_ready_addresses.len())
        .sum();
    if ready + other <= most {
        return false;
    }
    let (room, total) = if ready > most {
        (most, ready)
    } else {
        (most - ready, other)
    };
    let mut left = room;
    for subset in subsets {
        let list = if ready > most {
            subset.not_ready_addresses.clear();
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.truncate((list.len() * room).div_ceil(total).min(left));
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
    fn pods_are_told_with_the_ports_they_have() {
        let web = service(json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "protocol": "TCP", "targetPort": 8080}, {"name": "x", "protocol": "TCP", "targetPort": "x"}]}));
        let both = json!([{"ip": "fd00::1"}, {"ip": "10.1.0.1"}]);
        let not_ready = json!({"status": {"conditions": []}});
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let pods = [
            pod("a", both, json!({})),
            pod("b", json!([{"ip": "10.1.0.2"}]), not_ready),
            pod("c", json!([{"ip": "10.1.0.3"}]), going),
            pod("d", json!([{"ip": "fd00::4"}]), json!({})),
            pod(
                "e",
                json!([{"ip": "10.1.0.5"}]),
                json!({"status": {"phase": "Failed"}}),
            ),
        ];
        let plan = Plan::new(&web, &pods);
        let address = |ip: &str, name: &str| {
            json!({"ip": ip, "hostname": "h", "nodeName": "n1",
                "targetRef": {"kind": "Pod", "namespace": "shop", "name": name, "uid": name}})
        };
        assert_eq!(
            json!(plan.subsets),
            json!([{
                "addresses": [address("10.1.0.1", "a")],
                "notReadyAddresses": [address("10.1.0.2", "b")],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }])
        );
        let labels = json!({"a": "b", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
        assert_eq!(json!(plan.labels), labels);
    }

    #[test]
    fn a_service_without_an_address_may_have_no_ports_and_may_tell_of_all() {
        let web =
            service(json!({"clusterIP": "None", "ipFamilies": ["IPv6"], "publishNotReadyAddresses": true}));
        let going =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": []}});
        let plan = Plan::new(&web, &[pod("a", json!([{"ip": "fd00::1"}]), going)]);
        assert_eq!(plan.subsets[0].addresses.len(), 1);
        assert_eq!(plan.labels.get(HEADLESS).map(|value| &**value), Some(""));
    }

    #[test]
    fn too_many_addresses_are_cut_in_proportion() {
        let list = |count: usize| vec![Address::default(); count];
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
            let is_cut = cut(&mut subsets, 10);
            let left: Vec<_> = subsets
                .iter()
                .map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()))
                .collect();
            assert_eq!((left, is_cut), (after.clone(), before != after), "{before:?}");
        }
    }
}
