//! Default address of the node.

use std::net::{IpAddr, UdpSocket};

/// Local and remote addresses of UDP sockets. The remote addresses are reserved for documentation; connecting a UDP socket selects
/// a route and sends nothing.
const ROUTE_PROBES: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// The address of the interface with the default route, preferably IPv4. Without a default route, the first address that is not a
/// loopback address.
// upstream: pkg/kubelet/nodestatus/setters.go NodeAddress; that uses the host name first
pub(in crate::agent) fn default_address() -> IpAddr {
    let found = ROUTE_PROBES.iter().find_map(|(local, remote)| {
        let socket = UdpSocket::bind(local).ok()?;
        socket.connect(remote).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_unspecified() && !address.is_loopback()).then_some(address)
    });
    found.unwrap_or_else(|| {
        // Only Linux hosts with IPv4 have the file; without it the node has its loopback address.
        let trie = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
        first_local_address(&trie).unwrap_or(IpAddr::from([127, 0, 0, 1]))
    })
}

/// The first local address in `/proc/net/fib_trie` that is not a loopback address.
fn first_local_address(trie: &str) -> Option<IpAddr> {
    let lines: Vec<&str> = trie.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[1].contains("/32 host LOCAL"));
    let mut addresses = pairs.filter_map(|pair| pair[0].trim().strip_prefix("|-- ")?.parse::<IpAddr>().ok());
    addresses.find(|address| !address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_loopback_addresses() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.1.0.0\n        /24 link UNICAST\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(first_local_address(trie), Some([10, 1, 0, 7].into()));
        assert_eq!(first_local_address(""), None);
    }
}
