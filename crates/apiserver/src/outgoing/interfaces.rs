//! The addresses that the interfaces of this machine have.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

/// The local routes of IPv4, in the form of the kernel's trie (`net/ipv4/fib_trie.c fib_trie_seq_show`).
const IPV4: &str = "/proc/thread-self/net/fib_trie";
/// The addresses of IPv6, one in each line (`net/ipv6/addrconf.c if6_seq_show`).
const IPV6: &str = "/proc/thread-self/net/if_inet6";

/// Whether packets to an address are delivered to this machine.
pub(super) fn is_local(ip: IpAddr) -> bool {
    if ip.is_loopback() {
        return true;
    }
    let found = match ip {
        IpAddr::V4(ip) => fs::read_to_string(IPV4).map(|trie| has_local_ipv4(&trie, ip)),
        IpAddr::V6(ip) => fs::read_to_string(IPV6).map(|addresses| has_ipv6(&addresses, ip)),
    };
    found.unwrap_or_else(|error| can_bind(ip, &error))
}

/// Without `/proc`, or without IPv6: whether a socket can be bound to the address. With `net.ipv4.ip_nonlocal_bind=1` it can be
/// bound to every address. Nothing is sent.
fn can_bind(ip: IpAddr, error: &io::Error) -> bool {
    tracing::debug!(%ip, %error, "failed to read addresses of interfaces");
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Whether a trie has a local route to an address: a line with the address or its network, and below it `/32 host LOCAL`.
fn has_local_ipv4(trie: &str, ip: Ipv4Addr) -> bool {
    let mut network = None;
    for line in trie.lines().map(str::trim_start) {
        if let Some(leaf) = line.strip_prefix("|-- ") {
            network = leaf.parse().ok();
        } else if let Some(network) = network
            && let Some(length) = line
                .strip_suffix(" host LOCAL")
                .and_then(|line| line.strip_prefix('/'))
            && length.parse().is_ok_and(|length| is_in(ip, network, length))
        {
            return true;
        }
    }
    false
}

fn is_in(ip: Ipv4Addr, network: Ipv4Addr, length: u32) -> bool {
    let mask = u32::MAX
        .checked_shl(32_u32.saturating_sub(length))
        .unwrap_or_default();
    (u32::from(ip) ^ u32::from(network)) & mask == 0
}

/// Whether a table has an address, which is the first word of each line in 32 hexadecimal digits.
fn has_ipv6(addresses: &str, ip: Ipv6Addr) -> bool {
    let wanted = format!("{:032x}", u128::from(ip));
    addresses.lines().any(|line| line.starts_with(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 192.168.7.0
        /24 link UNICAST
Local:
  +-- 0.0.0.0/0 2 0 2
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
     +-- 192.168.7.0/24 2 0 1
        |-- 192.168.7.2
           /32 host LOCAL
        |-- 192.168.7.255
           /32 link BROADCAST
     |-- 198.51.100.0
        /24 host LOCAL
";

    #[test]
    fn finds_local_routes_of_one_address() {
        let has = |text: &str| has_local_ipv4(TRIE, text.parse().unwrap());
        assert!(has("192.168.7.2"));
        assert!(has("198.51.100.77"));
        for other in [
            "192.168.7.0",
            "192.168.7.255",
            "192.168.7.20",
            "0.0.0.0",
            "169.254.1.1",
        ] {
            assert!(!has(other), "{other}");
        }
    }

    #[test]
    fn finds_ipv6_addresses() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nfe800000000000000042acfffe110002 02 40 20 80 eth0\n";
        assert!(has_ipv6(table, "fe80::42:acff:fe11:2".parse().unwrap()));
        assert!(!has_ipv6(table, "fe80::42:acff:fe11:3".parse().unwrap()));
    }

    #[test]
    fn knows_addresses_of_this_machine() {
        assert!(is_local("127.8.8.8".parse().unwrap()));
        assert!(is_local("::1".parse().unwrap()));
        assert!(!is_local("169.254.169.254".parse().unwrap()));
        assert!(!is_local("192.0.2.1".parse().unwrap()));
    }
}
