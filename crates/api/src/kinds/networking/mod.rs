//! The kinds of the `networking.k8s.io` group, one file per kind.

mod backend;
mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "IPAddress" => &ip_address::IpAddress,
        "Ingress" => &ingress::Ingress,
        "IngressClass" => &ingress_class::IngressClass,
        "NetworkPolicy" => &network_policy::NetworkPolicy,
        "ServiceCIDR" => &service_cidr::ServiceCidr,
        _ => return None,
    })
}
