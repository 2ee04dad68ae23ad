//! The addresses of nodes and pods.
//!
//! All of them are in unrouted networks that API servers refuse to dial: `198.18.0.0/15` (RFC 2544), in larger simulations
//! also `240.0.0.0/4` (RFC 1112), and `2001:db8::/32` (RFC 3849). The `podCIDRs` of a node determine only the number and the
//! family of the addresses, because machines may have the addresses in those ranges.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A network whose addresses pods get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    first: IpAddr,
    /// The number of addresses, at most [`LARGEST`].
    size: u32,
}

/// The first address and the gateway are not assigned.
const RESERVED: u32 = 2;
/// Maximum number of addresses per node.
const LARGEST: u32 = 1 << 16;

// --- Network ---

impl Network {
    /// The default pod network of a node: a part of `198.19.0.0/16`, for higher numbers of `240.0.0.0/5`.
    pub(crate) fn of(number: u32) -> Self {
        let [_, high, middle, low] = number.to_be_bytes();
        let first = if number < 1 << 8 {
            Ipv4Addr::new(198, 19, low, 0)
        } else {
            Ipv4Addr::new(240 + high % 8, middle, low, 0)
        };
        Network {
            first: first.into(),
            size: 256,
        }
    }

    /// The unrouted network that replaces a pod CIDR: of the same address family, and not larger.
    pub(crate) fn simulated(self, number: u32) -> Self {
        match self.first {
            IpAddr::V4(_) => {
                let own = Network::of(number);
                Network {
                    size: self.size.min(own.size),
                    ..own
                }
            }
            IpAddr::V6(_) => {
                let documentation = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0));
                let first = documentation | (u128::from(number) << 64);
                Network {
                    first: Ipv6Addr::from(first).into(),
                    ..self
                }
            }
        }
    }

    /// Maximum number of pods.
    pub(crate) fn capacity(self) -> u32 {
        // The last address is the broadcast address.
        self.size.saturating_sub(RESERVED + 1)
    }

    /// The address of the pod with a number below the capacity.
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

/// The address of a node: in `198.18.0.0/16`, for higher numbers in `248.0.0.0/6`.
pub(crate) fn address_of(number: u32) -> IpAddr {
    let net = number / 254;
    let host = number % 254 + 1;
    let first = if net < 1 << 8 {
        Ipv4Addr::new(198, 18, 0, 0)
    } else {
        Ipv4Addr::new(248, 0, 0, 0)
    };
    Ipv4Addr::from(u32::from(first) | ((net << 8) & 0x03ff_ff00) | host).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_pods_have_distinct_addresses() {
        assert_eq!(address_of(0).to_string(), "198.18.0.1");
        assert_eq!(address_of(254).to_string(), "198.18.1.1");
        assert_eq!(address_of(256 * 254).to_string(), "248.1.0.1");
        assert_eq!(Network::of(0).address(0).to_string(), "198.19.0.2");
        assert_eq!(Network::of(300).address(252).to_string(), "240.1.44.254");
        assert_eq!(Network::of(300).capacity(), 253);
    }

    #[test]
    fn all_addresses_are_unrouted() {
        let routes_nowhere = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => {
                let [a, b, ..] = ip.octets();
                (a == 198 && b & 0xfe == 18) || (a >= 240 && !ip.is_broadcast())
            }
            IpAddr::V6(ip) => ip.segments().starts_with(&[0x2001, 0xdb8]),
        };
        let given: [Network; 3] =
            ["10.244.3.0/24", "10.0.0.0/8", "fd00:1::/64"].map(|text| text.parse().unwrap());
        for number in [0, 1, 255, 256, 65_023, 65_024, 100_000, 500_000, u32::MAX] {
            assert!(routes_nowhere(address_of(number)), "{number}");
            for network in given {
                let network = network.simulated(number);
                for pod in [0, network.capacity() - 1] {
                    assert!(routes_nowhere(network.address(pod)), "{number} {pod}");
                }
            }
        }
    }

    #[test]
    fn parses_networks() {
        let network: Network = "10.244.3.0/24".parse().unwrap();
        assert_eq!(
            (network.capacity(), network.address(1).to_string()),
            (253, "10.244.3.3".into())
        );
        let network: Network = "fd00:1::/64".parse().unwrap();
        assert_eq!(network.address(0).to_string(), "fd00:1::2");
        assert_eq!("10.0.0.0/31".parse::<Network>().unwrap().capacity(), 0);
        assert!("10.0.0.0".parse::<Network>().is_err());
    }
}
