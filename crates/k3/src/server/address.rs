//! Where this machine is on its networks, and what it is called.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::certificates::Name;

/// The address to tell to others: the one that is listened on, unless that is all of them or one that only
/// this machine can use.
pub(super) fn advertise_address(bind: IpAddr) -> IpAddr {
    if !bind.is_unspecified() && !bind.is_loopback() {
        return bind;
    }
    let outbound_address = outbound_address(bind.is_ipv6()).or_else(|| outbound_address(!bind.is_ipv6()));
    outbound_address.unwrap_or_else(|| {
        tracing::warn!("this machine has no way to other networks: it is only known by its loopback address");
        if bind.is_ipv6() {
            Ipv6Addr::LOCALHOST.into()
        } else {
            Ipv4Addr::LOCALHOST.into()
        }
    })
}

/// The address from which this machine would send to the environment. A datagram socket finds it out when it is
/// connected; nothing is sent.
fn outbound_address(is_v6: bool) -> Option<IpAddr> {
    // Addresses that are kept for documentation: nobody is there to be disturbed.
    let (from, to): (IpAddr, IpAddr) = if is_v6 {
        (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        )
    } else {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into())
    };
    let socket = UdpSocket::bind(SocketAddr::new(from, 0)).ok()?;
    socket.connect(SocketAddr::new(to, 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}

/// Whether an address is one of this machine's: it can be bound to.
pub(super) fn is_local_address(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// What this machine calls itself, if that can stand in a certificate.
pub(super) fn host_name() -> Option<Name> {
    let names = rustix::system::uname();
    names.nodename().to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_can_use_is_told_as_it_is() {
        for address in ["192.0.2.7", "2001:db8::7"] {
            let address = address.parse().unwrap();
            assert_eq!(advertise_address(address), address);
        }
    }

    #[test]
    fn an_address_that_is_kept_for_documentation_is_not_of_this_machine() {
        assert!(is_local_address(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_local_address([203, 0, 113, 7].into()));
    }

    #[test]
    fn the_address_for_all_is_never_told() {
        assert!(!advertise_address(Ipv4Addr::UNSPECIFIED.into()).is_unspecified());
        assert!(!advertise_address(Ipv6Addr::UNSPECIFIED.into()).is_unspecified());
    }
}
