//! Networks of addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A network of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// The first address, as a number.
    pub(crate) first: u128,
    /// How many bits of an address name the network.
    pub(crate) prefix: u8,
    /// How many bits an address has.
    pub(crate) bits: u8,
}

/// Not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network such as 10.244.0.0/16")]
pub(crate) struct CidrParseError(String);

/// How many bits an address of IPv4 has.
pub(crate) const V4: u8 = 32;
/// How many bits an address of IPv6 has.
const V6: u8 = 128;

// --- Network ---

impl Cidr {
    /// Whether they share addresses.
    pub(crate) fn overlaps(&self, other: &Cidr) -> bool {
        self.bits == other.bits && self.first <= other.last() && other.first <= self.last()
    }

    /// Whether all addresses of another one are in it.
    pub(crate) fn holds(&self, other: &Cidr) -> bool {
        self.overlaps(other) && self.prefix <= other.prefix
    }

    /// Whether an address is in it.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (number, bits) = number(address);
        bits == self.bits && number >= self.first && number <= self.last()
    }

    /// Whether a service can have an address of it: neither the first one, nor the last one of IPv4.
    pub(crate) fn can_allocate(&self, address: IpAddr) -> bool {
        let (number, bits) = number(address);
        let is_last = bits == V4 && number == self.last();
        bits == self.bits && number > self.first && number <= self.last() && !is_last
    }

    /// The last address, as a number.
    pub(crate) fn last(&self) -> u128 {
        self.first | mask(self.bits - self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrParseError;

    fn from_str(text: &str) -> Result<Self, CidrParseError> {
        let wrong = || CidrParseError(text.to_owned());
        let (address, prefix) = text.trim().split_once('/').ok_or_else(wrong)?;
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let (number, bits) = number(address);
        if prefix > bits {
            return Err(wrong());
        }
        let first = number & !mask(bits - prefix);
        Ok(Cidr { first, prefix, bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.prefix;
        match u32::try_from(self.first) {
            Ok(first) if self.bits == V4 => write!(f, "{}/{prefix}", Ipv4Addr::from(first)),
            _ => write!(f, "{}/{prefix}", Ipv6Addr::from(self.first)),
        }
    }
}

/// An address as a number, and how many bits it has.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), V4),
        IpAddr::V6(address) => (u128::from(address), V6),
    }
}

/// A number with so many ones at its end.
fn mask(ones: u8) -> u128 {
    if ones >= V6 { u128::MAX } else { (1 << ones) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_gives_all_addresses_but_those_at_its_ends() {
        for (network, address, gives) in [
            ("10.0.0.0/24", "10.0.0.0", false),
            ("10.0.0.0/24", "10.0.0.1", true),
            ("10.0.0.0/24", "10.0.0.255", false),
            ("10.0.0.0/24", "10.0.1.1", false),
            ("fd00::/120", "fd00::", false),
            ("fd00::/120", "fd00::ff", true),
            ("fd00::/120", "10.0.0.1", false),
        ] {
            let found = network
                .parse::<Cidr>()
                .unwrap()
                .can_allocate(address.parse().unwrap());
            assert_eq!(found, gives, "{address} of {network}");
        }
    }

    #[test]
    fn a_network_holds_smaller_ones_and_itself() {
        let network = |text: &str| text.parse::<Cidr>().unwrap();
        let ours = network("10.0.0.0/16");
        assert!(ours.holds(&network("10.0.3.0/24")) && ours.holds(&ours));
        assert!(!ours.holds(&network("10.0.0.0/15")) && !ours.holds(&network("10.1.0.0/24")));
        assert!(!ours.holds(&network("fd00::/64")));
    }
}
