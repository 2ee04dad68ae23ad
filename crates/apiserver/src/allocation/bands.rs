//! A range of addresses or ports in two bands: dynamic allocation uses the upper band first (KEP-3070, KEP-3668).
//!
//! Users who want a number of their own choose it from the lower band; the server chooses from the upper one as long as there
//! is a free number in it. So the two seldom meet.

use std::{net::IpAddr, ops::RangeInclusive};

use k3_api::name::Subnet;

/// The ports on nodes that services can have.
pub(super) const PORTS: RangeInclusive<u16> = 30000..=32767;

/// Where the addresses of a network end that is too large to be counted: a longer prefix is needed.
const SHORTEST_V6_PREFIX: u32 = 64;

/// Numbers from `first` to `last`; from `split` on they are the server's to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bands {
    first: u128,
    split: u128,
    last: u128,
}

// --- Bands ---

impl Bands {
    /// The addresses of a network: all but its own, and the broadcast address of IPv4. `None` if it has none to give.
    pub(super) fn of_network(network: &Subnet) -> Option<Self> {
        let bits: u32 = if network.network.is_ipv4() { 32 } else { 128 };
        if bits == 128 && network.prefix < SHORTEST_V6_PREFIX {
            return None;
        }
        let size = 1u128 << bits.checked_sub(network.prefix)?;
        let base = number_of(network.network);
        let first = base + 1;
        let end = base + (size - 1);
        let last = if bits == 32 { end - 1 } else { end };
        (first <= last).then(|| Bands {
            first,
            split: first + lower_band(size, 16, 256),
            last,
        })
    }

    /// The ports on nodes.
    pub(super) fn of_ports() -> Self {
        let first = u128::from(*PORTS.start());
        let last = u128::from(*PORTS.end());
        Bands {
            first,
            split: first + lower_band(last - first + 1, 32, 128),
            last,
        }
    }

    /// Whether a number is one of them.
    pub(super) fn contains(&self, number: u128) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// All of them, each once, in the order to try them: the upper band before the lower one, each from a random place on.
    pub(super) fn candidates(&self, random: u128) -> impl Iterator<Item = u128> + use<> {
        let upper = rotated(self.split, self.last + 1, random);
        upper.chain(rotated(self.first, self.split, random))
    }
}

/// Numbers from `from` on and before `end`, beginning anywhere.
fn rotated(from: u128, end: u128, random: u128) -> impl Iterator<Item = u128> {
    let begin = from + random % end.saturating_sub(from).max(1);
    (begin..end).chain(from..begin.min(end))
}

/// How many of the numbers are left to users: a part of them, though neither few nor very many; of a small row, none.
// upstream: pkg/registry/core/service/ipallocator/bitmap.go calculateRangeOffset; KEP-3070
fn lower_band(size: u128, part: u128, max: u128) -> u128 {
    const MIN_BAND: u128 = 16;
    if size <= MIN_BAND {
        0
    } else {
        (size / part).clamp(MIN_BAND, max)
    }
}

/// An address as a number.
pub(super) fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The number as an address of a family, that of `like`.
pub(super) fn address_of(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or(u32::MAX).into()),
        IpAddr::V6(_) => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k3_api::name::parse_cidr_sloppy;

    use super::*;

    fn bands(network: &str) -> Option<[String; 3]> {
        let network = parse_cidr_sloppy(network).unwrap();
        let Bands { first, split, last } = Bands::of_network(&network)?;
        Some([first, split, last].map(|number| address_of(number, network.network).to_string()))
    }

    #[test]
    fn allocates_from_dynamic_band_first() {
        let wide = ["10.96.0.1", "10.96.1.1", "10.96.255.254"].map(str::to_owned);
        assert_eq!(bands("10.96.0.0/16"), Some(wide));
        let middle = ["10.0.0.1", "10.0.0.17", "10.0.0.254"].map(str::to_owned);
        assert_eq!(bands("10.0.0.0/24"), Some(middle));
        let small = ["10.0.0.9", "10.0.0.9", "10.0.0.14"].map(str::to_owned);
        assert_eq!(bands("10.0.0.8/29"), Some(small));
        let six = ["fd00::1", "fd00::101", "fd00::ffff"].map(str::to_owned);
        assert_eq!(bands("fd00::/112"), Some(six));
        assert_eq!(bands("fd00::/64").unwrap()[2], "fd00::ffff:ffff:ffff:ffff");
        assert_eq!(Bands::of_ports().split, 30086);
    }

    #[test]
    fn empty_networks_have_no_bands() {
        for network in ["10.0.0.0/31", "10.0.0.0/32", "fd00::/128", "fd00::/63"] {
            assert_eq!(bands(network), None, "{network}");
        }
    }

    #[test]
    fn candidates_cover_every_number_once_static_band_last() {
        let bands = Bands::of_network(&parse_cidr_sloppy("10.0.0.0/27").unwrap()).unwrap();
        for random in [0, 7, 13, 1 << 77] {
            let tried: Vec<_> = bands.candidates(random).collect();
            assert_eq!(tried.iter().collect::<BTreeSet<_>>().len(), 30);
            assert_eq!(tried.len(), 30);
            assert!(tried[..14].iter().all(|number| *number >= bands.split));
        }
    }
}
