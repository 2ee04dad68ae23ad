//! The addresses of nodes and pods.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A network whose addresses pods get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    first: IpAddr,
    /// How many addresses it has; no more than anybody needs.
    size: u32,
}

/// The first address and the gateway are nobody's.
const RESERVED: u32 = 2;
/// More pods than this no node has.
const LARGEST: u32 = 1 << 16;

// --- Network ---

impl Network {
    /// The network of a node to which nobody has given one: a part of `10.128.0.0/9`.
    pub(crate) fn of(number: u32) -> Self {
        let [.., high, low] = number.to_be_bytes();
        Network {
            first: Ipv4Addr::new(10, 128 | high, low, 0).into(),
            size: 256,
        }
    }

    /// How many pods there may be.
    pub(crate) fn room(self) -> u32 {
        // The last address speaks to all.
        self.size.saturating_sub(RESERVED + 1)
    }

    /// The address of a pod by its number, which is less than what there is room for.
    pub(crate) fn address(self, pod: u32) -> IpAddr {
        let host = pod + RESERVED;
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(host)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(host.into())).into(),
        }
    }
}

impl FromStr for Network {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (first, length) = text.split_once('/').ok_or(())?;
        let first: IpAddr = first.parse().map_err(|_| ())?;
        let length: u32 = length.parse().map_err(|_| ())?;
        let bits = if first.is_ipv4() { 32 } else { 128 };
        let free = bits - length.min(bits);
        Ok(Network {
            first,
            size: 1_u32.checked_shl(free).unwrap_or(LARGEST).clamp(1, LARGEST),
        })
    }
}

/// The address of a node, in `172.16.0.0/12`.
pub(crate) fn address_of(number: u32) -> IpAddr {
    let (net, host) = (number / 254, number % 254 + 1);
    let first = u32::from(Ipv4Addr::new(172, 16, 0, 0));
    Ipv4Addr::from(first.wrapping_add((net << 8) + host)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_pods_have_addresses_of_their_own() {
        assert_eq!(address_of(0).to_string(), "172.16.0.1");
        assert_eq!(address_of(254).to_string(), "172.16.1.1");
        assert_eq!(Network::of(0).address(0).to_string(), "10.128.0.2");
        assert_eq!(Network::of(300).address(252).to_string(), "10.129.44.254");
        assert_eq!(Network::of(300).room(), 253);
    }

    #[test]
    fn a_network_is_read() {
        let network: Network = "10.244.3.0/24".parse().unwrap();
        assert_eq!(
            (network.room(), network.address(1).to_string()),
            (253, "10.244.3.3".into())
        );
        let network: Network = "fd00:1::/64".parse().unwrap();
        assert_eq!(network.address(0).to_string(), "fd00:1::2");
        assert_eq!("10.0.0.0/31".parse::<Network>().unwrap().room(), 0);
        assert!("10.0.0.0".parse::<Network>().is_err());
    }
}
