//! The service cluster IP range, as configured.

use std::net::IpAddr;

use k3_api::name::{Subnet, parse_cidr_sloppy};

/// Fewer addresses than eight leave nothing to give away.
const MIN_HOST_BITS: u32 = 3;

/// Why a text is no range for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadServiceRange {
    /// It is no network.
    #[error("not a network such as 10.96.0.0/16 or fd00:10:96::/112")]
    NotANetwork,
    /// There are two.
    #[error("one range, not a list of them")]
    Several,
    /// It is too small.
    #[error("the service cluster IP range must be at least 8 IP addresses")]
    TooSmall,
}

/// Reads a range for services.
// upstream: pkg/controlplane/apiserver/options/options.go ServiceIPRange
pub fn service_range(text: &str) -> Result<Subnet, BadServiceRange> {
    if text.contains(',') {
        return Err(BadServiceRange::Several);
    }
    let range = parse_cidr_sloppy(text).ok_or(BadServiceRange::NotANetwork)?;
    let bits = if range.network.is_ipv4() { 32 } else { 128 };
    if bits - range.prefix < MIN_HOST_BITS {
        return Err(BadServiceRange::TooSmall);
    }
    Ok(range)
}

/// The address of the service `kubernetes`, by which pods reach the API server: the first of the range.
// upstream: pkg/controlplane/apiserver/options/options.go ServiceIPRange
pub fn kubernetes_address(range: &Subnet) -> IpAddr {
    match range.network {
        IpAddr::V4(network) => IpAddr::V4((u32::from(network) | 1).into()),
        IpAddr::V6(network) => IpAddr::V6((u128::from(network) | 1).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Result<String, BadServiceRange> {
        service_range(text).map(|range| kubernetes_address(&range).to_string())
    }

    #[test]
    fn first_address_is_kubernetes_service() {
        assert_eq!(first("10.96.0.0/16").unwrap(), "10.96.0.1");
        assert_eq!(first("10.96.7.9/16").unwrap(), "10.96.0.1");
        assert_eq!(first("10.96.0.8/29").unwrap(), "10.96.0.9");
        assert_eq!(first("fd00:10:96::/112").unwrap(), "fd00:10:96::1");
    }

    #[test]
    fn rejects_lists_and_small_ranges() {
        assert_eq!(first("10.96.0.0"), Err(BadServiceRange::NotANetwork));
        assert_eq!(first("10.96.0.0/33"), Err(BadServiceRange::NotANetwork));
        assert_eq!(first("10.96.0.0/30"), Err(BadServiceRange::TooSmall));
        assert_eq!(first("10.0.0.0/16,fd00::/112"), Err(BadServiceRange::Several));
    }
}
