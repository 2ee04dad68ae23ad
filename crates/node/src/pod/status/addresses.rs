//! IPs of a pod and of its node.
// upstream: pkg/kubelet/kubelet_pods.go generateAPIPodStatus, sortPodIPs

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodSpec, PodStatus};

use super::{PodSnapshot, StatusInput};
use crate::NodeFacts;

/// Number of IP families. A pod has at most one IP of each.
const FAMILIES: usize = 2;

/// Sets hostIPs, and podIPs: the pod's own, or the node's with `hostNetwork`.
pub(super) fn fill_addresses(
    status: &mut PodStatus,
    input: &StatusInput<'_>,
    spec: &PodSpec,
    api: &PodStatus,
    old: &PodStatus,
) {
    let node: Vec<_> = input.facts.addresses.iter().take(FAMILIES).copied().collect();
    let mut own = sort_pod_ips(input.snapshot.addresses(), node.first().copied());
    if own.is_empty() && input.snapshot.ready_sandbox().is_none() {
        // A terminated pod keeps the IPs it had.
        own = [old, api]
            .into_iter()
            .map(reported_ips)
            .find(|ips| !ips.is_empty())
            .unwrap_or_default();
    }
    if spec.host_network == Some(true) {
        if own.is_empty() {
            own = [old, api]
                .into_iter()
                .map(reported_ips)
                .find(|ips| !ips.is_empty())
                .unwrap_or_default();
        }
        if own.is_empty() {
            own.extend(node.first());
        }
        if let ([first], Some(second)) = (&*own, node.get(1))
            && first.is_ipv4() != second.is_ipv4()
        {
            own.push(*second);
        }
    }
    status.pod_ip = own.first().map(ToString::to_string);
    let ips: Vec<_> = own.iter().map(|ip| PodIP { ip: ip.to_string() }).collect();
    status.pod_ips = (!ips.is_empty()).then_some(ips);
    if node.is_empty() {
        status.host_ip.clone_from(&api.host_ip);
        status.host_ips.clone_from(&api.host_ips);
        return;
    }
    status.host_ip = node.first().map(ToString::to_string);
    status.host_ips = Some(node.iter().map(|ip| HostIP { ip: ip.to_string() }).collect());
}

/// The IP to probe a pod at.
pub fn first_address(pod: &Pod, snapshot: &PodSnapshot, facts: &NodeFacts) -> Option<IpAddr> {
    let node = facts.addresses.first().copied();
    if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        return node;
    }
    sort_pod_ips(snapshot.addresses(), node).first().copied()
}

/// The first IP of the node's family, then the first of the other one.
fn sort_pod_ips(addresses: &[IpAddr], node: Option<IpAddr>) -> Vec<IpAddr> {
    let first = node.is_none_or(|node| node.is_ipv4());
    let find_first = |v4: bool| addresses.iter().find(move |ip| ip.is_ipv4() == v4).copied();
    find_first(first).into_iter().chain(find_first(!first)).collect()
}

fn reported_ips(status: &PodStatus) -> Vec<IpAddr> {
    let ips = status.pod_ips.iter().flatten();
    ips.filter_map(|ip| ip.ip.parse().ok()).collect()
}
