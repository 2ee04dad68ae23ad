//! The networks of ServiceCIDRs that cluster IPs are allocated from.

use k3_api::{
    kinds::{builtin, service::IpFamily},
    name::{Subnet, parse_cidr_sloppy},
    strategy::Tree,
};
use serde_json::Value;

use super::bands::Bands;
use crate::{cache::WatchCaches, registry::Resource};

/// A network that services get addresses of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceNetwork {
    pub subnet: Subnet,
    pub bands: Bands,
}

/// The networks of a family that give addresses now.
// upstream: pkg/registry/core/service/ipallocator/cidrallocator.go MetaAllocator
pub(super) fn networks(family: IpFamily, caches: &WatchCaches) -> Vec<ServiceNetwork> {
    let kind = builtin().kind("networking.k8s.io", "v1", "ServiceCIDR");
    let ranges = Resource::of(kind.expect("the kind is built in"), caches);
    let snapshot = ranges.cache.snapshot(caches.applied());
    let mut networks: Vec<ServiceNetwork> = Vec::new();
    for range in snapshot.objects.values() {
        let range = range.tree();
        if !gives(&range) {
            continue;
        }
        for subnet in range.at("spec").texts("cidrs").filter_map(parse_cidr_sloppy) {
            if subnet.network.is_ipv4() == (family == IpFamily::V4)
                && let Some(bands) = Bands::of_network(&subnet)
            {
                networks.push(ServiceNetwork { subnet, bands });
            }
        }
    }
    networks
}

/// Whether a `ServiceCIDR` allocates addresses: it is not terminating, and its `Ready` condition is not false.
fn gives(range: &Value) -> bool {
    let conditions = range.at("status").items("conditions");
    let ready = conditions
        .iter()
        .find(|condition| condition.text("type") == "Ready")
        .is_none_or(|condition| condition.text("status") == "True");
    ready && !range.at("metadata").has("deletionTimestamp")
}
