//! The addresses of a pod and of its node.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostIP, Pod, PodIP, PodSpec, PodStatus};

use super::{Input, Seen};
use crate::Facts;

/// A node has one address of each family at most that counts.
const FAMILIES: usize = 2;

/// The addresses of the node, and those of the pod: its own, or the node's with the host's network.
pub(super) fn fill(
    status: &mut PodStatus,
    input: &Input<'_>,
    spec: &PodSpec,
    api: &PodStatus,
    old: &PodStatus,
) {
    let node: Vec<_> = input.facts.addresses.iter().take(FAMILIES).copied().collect();
    let mut own = sorted(input.seen.addresses(), node.first().copied());
    if own.is_empty() && input.seen.ready_sandbox().is_none() {
        // A pod that has ended is still told by the address it had.
        own = [old, api]
            .into_iter()
            .map(told)
            .find(|ips| !ips.is_empty())
            .unwrap_or_default();
    }
    if spec.host_network == Some(true) {
        if own.is_empty() {
            own = [old, api]
                .into_iter()
                .map(told)
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

/// The address at which a pod is asked whether it is well.
pub fn first_address(pod: &Pod, seen: &Seen, facts: &Facts) -> Option<IpAddr> {
    let node = facts.addresses.first().copied();
    if pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true) {
        return node;
    }
    sorted(seen.addresses(), node).first().copied()
}

/// The first address of the node's family, then the first of the other one.
fn sorted(addresses: &[IpAddr], node: Option<IpAddr>) -> Vec<IpAddr> {
    let first = node.is_none_or(|node| node.is_ipv4());
    let of = |v4: bool| addresses.iter().find(move |ip| ip.is_ipv4() == v4).copied();
    of(first).into_iter().chain(of(!first)).collect()
}

fn told(status: &PodStatus) -> Vec<IpAddr> {
    let ips = status.pod_ips.iter().flatten();
    ips.filter_map(|ip| ip.ip.parse().ok()).collect()
}
