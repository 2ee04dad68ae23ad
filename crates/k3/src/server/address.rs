//! Addresses and host name of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::certificates::SubjectAltName;

/// Any source address, and an address in another network.
const IPV4_ROUTE: (IpAddr, IpAddr) = (
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
);
/// The same for IPv6.
const IPV6_ROUTE: (IpAddr, IpAddr) = (
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
);

/// The address to advertise: the bind address, unless that is unspecified or a loopback address.
pub(super) fn advertise_address(bind: IpAddr) -> IpAddr {
    if !bind.is_unspecified() && !bind.is_loopback() {
        return bind;
    }
    let outbound_address = if bind.is_ipv6() {
        outbound_address(IPV6_ROUTE).or_else(|| outbound_address(IPV4_ROUTE))
    } else {
        outbound_address(IPV4_ROUTE).or_else(|| outbound_address(IPV6_ROUTE))
    };
    outbound_address.unwrap_or_else(|| {
        tracing::warn!("no route to other networks: advertising the loopback address");
        if bind.is_ipv6() {
            Ipv6Addr::LOCALHOST.into()
        } else {
            Ipv4Addr::LOCALHOST.into()
        }
    })
}

/// The source address of traffic to other networks. Connecting a datagram socket selects a route without sending anything.
fn outbound_address((from, to): (IpAddr, IpAddr)) -> Option<IpAddr> {
    let socket = UdpSocket::bind(SocketAddr::new(from, 0)).ok()?;
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

/// Whether an address belongs to this machine: it can be bound.
pub(super) fn is_local_address(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// The host name, if it is valid in a certificate.
pub(super) fn host_name() -> Option<SubjectAltName> {
    let names = rustix::system::uname();
    names.nodename().to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advertises_a_routable_bind_address() {
        for address in ["192.0.2.7", "2001:db8::7"] {
            let address = address.parse().unwrap();
            assert_eq!(advertise_address(address), address);
        }
    }

    #[test]
    fn documentation_addresses_are_not_local() {
        assert!(is_local_address(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_local_address([203, 0, 113, 7].into()));
    }

    #[test]
    fn never_advertises_the_unspecified_address() {
        assert!(!advertise_address(Ipv4Addr::UNSPECIFIED.into()).is_unspecified());
        assert!(!advertise_address(Ipv6Addr::UNSPECIFIED.into()).is_unspecified());
    }
}
