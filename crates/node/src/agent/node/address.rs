//! Where this machine is reached.

use std::net::{IpAddr, UdpSocket};

/// Addresses of documentation, which nobody has: what is asked for is the way out of this machine, and nothing is sent.
const FAR: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// The address of the interface that the default route uses; of IPv4 rather than IPv6. The loopback address on a machine that
/// has no way out.
pub(in crate::agent) fn default_address() -> IpAddr {
    let found = FAR.iter().find_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_unspecified() && !address.is_loopback()).then_some(address)
    });
    found.unwrap_or_else(|| {
        let trie = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
        local(&trie).unwrap_or(IpAddr::from([127, 0, 0, 1]))
    })
}

/// The first address of this machine in the table of routes that is no loopback.
fn local(trie: &str) -> Option<IpAddr> {
    let lines: Vec<&str> = trie.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[1].contains("/32 host LOCAL"));
    let mut addresses = pairs.filter_map(|pair| pair[0].trim().strip_prefix("|-- ")?.parse::<IpAddr>().ok());
    addresses.find(|address| !address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_that_is_no_loopback_is_found() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.1.0.0\n        /24 link UNICAST\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(local(trie), Some([10, 1, 0, 7].into()));
        assert_eq!(local(""), None);
    }
}
