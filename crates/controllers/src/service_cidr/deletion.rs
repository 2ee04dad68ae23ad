//! Whether a ServiceCIDR can be deleted.

use std::{net::IpAddr, sync::Arc};

use crate::{
    cidr::Cidr,
    objects::{IpAddress, ServiceCidr},
};

const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// managed-by value of addresses allocated for Services.
const ALLOCATOR: &str = "ipallocator.k8s.io";

pub(super) fn cidrs_of(cidr: &ServiceCidr) -> Vec<Cidr> {
    cidr.spec
        .cidrs
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect()
}

/// Whether an address can be allocated from it.
pub(super) fn can_allocate(cidr: &ServiceCidr, address: IpAddr) -> bool {
    cidrs_of(cidr).iter().any(|network| network.can_allocate(address))
}

/// The address of an IPAddress allocated for a Service; `None` if it is managed otherwise.
pub(super) fn allocated_address(address: &IpAddress) -> Option<IpAddr> {
    let is_given = address.metadata.label(MANAGED_BY) == Some(ALLOCATOR);
    is_given.then(|| address.metadata.name.parse().ok())?
}

/// Whether it can be deleted: all its CIDRs are contained in others, or no address is contained in it alone.
// upstream: pkg/controller/servicecidrs/servicecidrs_controller.go canDeleteCIDR
pub(super) fn can_delete(cidr: &ServiceCidr, all: &[Arc<ServiceCidr>], addresses: &[Arc<IpAddress>]) -> bool {
    let others: Vec<_> = all
        .iter()
        .filter(|other| other.metadata.name != cidr.metadata.name)
        .collect();
    let is_within = |network: &Cidr| {
        let mut theirs = others.iter().flat_map(|other| cidrs_of(other));
        theirs.any(|other| other.holds(network))
    };
    let is_needed_for = |address: IpAddr| {
        can_allocate(cidr, address) && !others.iter().any(|other| can_allocate(other, address))
    };
    cidrs_of(cidr).iter().all(is_within)
        || !addresses
            .iter()
            .filter_map(|address| allocated_address(address))
            .any(is_needed_for)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cidr(name: &str, cidrs: &[&str]) -> Arc<ServiceCidr> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"cidrs": cidrs}})).unwrap(),
        )
    }

    fn address(name: &str, manager: &str) -> Arc<IpAddress> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {MANAGED_BY: manager}}}))
                .unwrap(),
        )
    }

    #[test]
    fn keeps_a_service_cidr_in_use() {
        let ours = cidr("a", &["10.0.0.0/24", "fd00::/112"]);
        let larger = cidr("b", &["10.0.0.0/16", "fd00::/64"]);
        let half = cidr("c", &["10.0.0.0/16"]);
        let smaller = cidr("d", &["10.0.0.0/28"]);
        let given = |name: &str| vec![address(name, ALLOCATOR)];
        for (others, addresses, deleted) in [
            (vec![], vec![], true),
            (vec![], given("10.0.0.1"), false),
            (vec![], given("10.0.1.1"), true),
            (vec![], vec![address("10.0.0.1", "other")], true),
            (vec![&larger], given("10.0.0.1"), true),
            (vec![&half], given("10.0.0.1"), true),
            (vec![&half], given("fd00::1"), false),
            (vec![&smaller], given("10.0.0.1"), true),
            (vec![&smaller], given("10.0.0.99"), false),
        ] {
            let mut all: Vec<_> = others.iter().map(|other| Arc::clone(other)).collect();
            all.push(Arc::clone(&ours));
            assert_eq!(
                can_delete(&ours, &all, &addresses),
                deleted,
                "{others:?} {addresses:?}"
            );
        }
    }
}
