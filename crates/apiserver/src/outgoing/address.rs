//! Which addresses may be dialled for which purpose, as a pure function of the address.
//!
//! Promise: an address is checked by its effective target, however it is written: IPv4 embedded in IPv6 is IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is dialled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialRule {
    /// The own API of a node. A node may be on this machine, at a loopback address.
    Node,
    /// What requests of clients are passed on to: pods, endpoints of services, other ports of nodes.
    Proxy,
    /// A webhook by its URL, which an administrator configures. It may be on this machine.
    Webhook,
    /// A webhook by its service, whose endpoints those of the namespace choose.
    WebhookService,
}

/// Why an address is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// It is in one of the networks below.
    #[error(
        "address not allowed: {0} is in a network that routes nowhere, such as those of simulated nodes and pods"
    )]
    Unroutable(IpAddr),
    /// It is not for this purpose: loopback, link-local, multicast and the like.
    #[error("address not allowed")]
    Refused,
    /// Only nodes and pods are dialled.
    #[error("address not allowed: it is an address of a service")]
    Service,
    /// The server never dials itself.
    #[error("address not allowed: it is an address of this API server")]
    ThisServer,
}

/// Networks that route nowhere (RFC 2544, RFC 1112, RFC 5737, RFC 3849, RFC 6666). Simulated nodes and pods have addresses of
/// some of them.
const NOWHERE_V4: [(Ipv4Addr, u32); 3] = [
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
];
const NOWHERE_V6: [(Ipv6Addr, u32); 2] = [
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0), 64),
];

/// An address, and the IPv4 address inside it to which translators and tunnels would lead.
pub(super) fn effective_addresses(ip: IpAddr) -> impl Iterator<Item = IpAddr> {
    let canonical = ip.to_canonical();
    let embedded_ipv4 = match canonical {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => embedded_ipv4(v6).map(IpAddr::V4),
    };
    [Some(canonical), embedded_ipv4].into_iter().flatten()
}

/// Why an address must not be dialled, which is one of [`effective_addresses`]. `is_local`: whether this machine has it.
pub(super) fn check(rule: DialRule, ip: IpAddr, is_local: impl Fn() -> bool) -> Result<(), AddressError> {
    if leads_nowhere(ip) && !is_local() {
        return Err(AddressError::Unroutable(ip));
    }
    let is_refused = ip.is_unspecified()
        || ip.is_multicast()
        || is_broadcast(ip)
        || match rule {
            // upstream: pkg/registry/core/node/strategy.go isProxyableHostname
            DialRule::Proxy | DialRule::WebhookService => ip.is_loopback() || is_link_local(ip),
            DialRule::Node => is_link_local(ip) && !is_local(),
            DialRule::Webhook => false,
        };
    if is_refused {
        return Err(AddressError::Refused);
    }
    Ok(())
}

/// The IPv4 address inside an address of NAT64 (RFC 6052, RFC 8215), of 6to4 (RFC 3056) or of the deprecated form `::a.b.c.d`.
fn embedded_ipv4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    if ip.is_unspecified() || ip.is_loopback() {
        return None;
    }
    match ip.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 1, .., high, low]
        | [0x2002, high, low, ..]
        | [0, 0, 0, 0, 0, 0, high, low] => Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))),
        _ => None,
    }
}

fn leads_nowhere(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            NOWHERE_V4.iter().any(|(network, prefix)| {
                u32::from(ip) >> (32 - prefix) == u32::from(*network) >> (32 - prefix)
            }) && !ip.is_broadcast()
        }
        IpAddr::V6(ip) => NOWHERE_V6.iter().any(|(network, prefix)| {
            u128::from(ip) >> (128 - prefix) == u128::from(*network) >> (128 - prefix)
        }),
    }
}

fn is_broadcast(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(rule: DialRule, text: &str) -> bool {
        effective_addresses(text.parse().unwrap()).all(|ip| check(rule, ip, || false).is_ok())
    }

    #[test]
    fn proxies_only_to_global_addresses() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::127.0.0.1",
            "2002:7f00:1::",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "224.0.0.1",
            "::ffff:224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert!(!is_allowed(DialRule::Proxy, address), "{address}");
        }
        for address in [
            "10.1.2.3",
            "172.16.0.1",
            "fd00::1",
            "2a00::1",
            "64:ff9b::10.1.2.3",
        ] {
            assert!(is_allowed(DialRule::Proxy, address), "{address}");
        }
    }

    #[test]
    fn rejects_unroutable_networks() {
        for rule in [
            DialRule::Node,
            DialRule::Proxy,
            DialRule::Webhook,
            DialRule::WebhookService,
        ] {
            for address in [
                "198.18.0.1",
                "198.19.255.254",
                "::ffff:198.18.0.1",
                "64:ff9b::198.18.0.1",
                "192.0.2.1",
                "240.0.0.2",
                "2001:db8::2",
                "100::1",
                "0.0.0.0",
                "::",
                "239.0.0.1",
            ] {
                assert!(!is_allowed(rule, address), "{rule:?} {address}");
            }
            for address in ["198.17.255.255", "198.20.0.1", "192.0.3.1", "2001:db9::1"] {
                assert!(is_allowed(rule, address), "{rule:?} {address}");
            }
        }
    }

    #[test]
    fn allows_loopback_for_nodes_and_webhooks() {
        assert!(is_allowed(DialRule::Node, "127.0.0.1"));
        assert!(is_allowed(DialRule::Node, "::1"));
        assert!(is_allowed(DialRule::Webhook, "::ffff:127.0.0.1"));
        assert!(!is_allowed(DialRule::WebhookService, "::ffff:127.0.0.1"));
        assert!(!is_allowed(DialRule::Node, "169.254.169.254"));
        assert!(!is_allowed(DialRule::Node, "::ffff:169.254.169.254"));
    }
}
