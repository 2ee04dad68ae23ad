//! Cluster IPs to allocate for a service, and those to release.

use serde_json::{Value, json};

use super::{EXTERNAL_NAME, NONE, defaulting::is_matching_prefer_dual_stack, families::IpFamily, kind};
use crate::strategy::{Tree, TreeMut};

/// A cluster IP to allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIpRequest {
    /// Index in `spec.clusterIPs`.
    pub index: usize,
    /// Its family.
    pub family: IpFamily,
    /// The address that the user requests; `None` for any.
    pub requested: Option<String>,
}

/// Allocation and release of cluster IPs for a write of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterIpChanges {
    /// Addresses to allocate.
    pub take: Vec<ClusterIpRequest>,
    /// Addresses to release once the change is stored.
    pub release: Vec<String>,
}

/// The cluster IP changes of a defaulted service. Without an old one it is created; without a new one it is deleted.
// upstream: pkg/registry/core/service/storage/alloc.go txnAllocClusterIPs, txnUpdateClusterIPs, releaseClusterIPs
pub fn cluster_ip_changes(new: Option<&Value>, old: Option<&Value>) -> ClusterIpChanges {
    match (new, old) {
        (Some(new), None) => ClusterIpChanges {
            take: requests_for_all_families(new),
            ..ClusterIpChanges::default()
        },
        (None, Some(old)) => ClusterIpChanges {
            release: allocated_ips(old),
            ..ClusterIpChanges::default()
        },
        (Some(new), Some(old)) => update_changes(new, old),
        (None, None) => ClusterIpChanges::default(),
    }
}

/// Writes an allocated address into a service.
pub fn set_cluster_ip(service: &mut Value, index: usize, address: &str) {
    let spec = service.ensure_object("spec");
    let mut list = spec.items("clusterIPs").to_vec();
    if list.len() <= index {
        list.resize(index + 1, json!(""));
    }
    list[index] = json!(address);
    spec.set("clusterIPs", list);
    if index == 0 {
        spec.set("clusterIP", address);
    }
}

// upstream: pkg/registry/core/service/storage/alloc.go updateClusterIPs
fn update_changes(new: &Value, old: &Value) -> ClusterIpChanges {
    let mut changes = ClusterIpChanges::default();
    if is_matching_prefer_dual_stack(new, old) {
        return changes;
    }
    match (kind(old) == EXTERNAL_NAME, kind(new) == EXTERNAL_NAME) {
        (true, false) => changes.take = requests_for_all_families(new),
        (false, true) => changes.release = allocated_ips(old),
        (true, true) => {}
        (false, false) => {
            let old_ips = allocated_ips(old);
            if old_ips.is_empty() {
                return changes;
            }
            let families = |service: &Value| service.at("spec").items("ipFamilies").len();
            match (families(old), families(new)) {
                (1, 2) => changes.take = requests_for_all_families(new).into_iter().skip(1).collect(),
                (2, 1) => changes.release = old_ips.into_iter().skip(1).collect(),
                _ => {}
            }
        }
    }
    changes
}

/// One address per family.
// upstream: pkg/registry/core/service/storage/alloc.go allocClusterIPs
fn requests_for_all_families(service: &Value) -> Vec<ClusterIpRequest> {
    let spec = service.at("spec");
    if kind(service) == EXTERNAL_NAME || spec.texts("clusterIPs").next() == Some(NONE) {
        return Vec::new();
    }
    let requested: Vec<_> = spec.texts("clusterIPs").collect();
    spec.texts("ipFamilies")
        .filter_map(IpFamily::parse)
        .enumerate()
        .map(|(index, family)| ClusterIpRequest {
            index,
            family,
            requested: requested
                .get(index)
                .filter(|ip| !ip.is_empty())
                .map(|ip| (*ip).to_owned()),
        })
        .collect()
}

fn allocated_ips(service: &Value) -> Vec<String> {
    if kind(service) == EXTERNAL_NAME {
        return Vec::new();
    }
    let ips = service.at("spec").texts("clusterIPs");
    ips.filter(|ip| !ip.is_empty() && *ip != NONE)
        .map(str::to_owned)
        .collect()
}
