//! IPv4 and IPv6 CIDRs.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// The network address as a number.
    pub(crate) first: u128,
    /// Prefix length.
    pub(crate) prefix: u8,
    /// Address length in bits.
    pub(crate) bits: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network such as 10.244.0.0/16")]
pub(crate) struct CidrParseError(String);

pub(crate) const V4: u8 = 32;
const V6: u8 = 128;

// --- Cidr ---

impl Cidr {
    /// Whether two CIDRs overlap.
    pub(crate) fn overlaps(&self, other: &Cidr) -> bool {
        self.bits == other.bits && self.first <= other.last() && other.first <= self.last()
    }

    /// Whether it contains another CIDR.
    pub(crate) fn holds(&self, other: &Cidr) -> bool {
        self.overlaps(other) && self.prefix <= other.prefix
    }

    /// Whether it contains an address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let (number, bits) = number(address);
        bits == self.bits && number >= self.first && number <= self.last()
    }

    /// Whether an address can be allocated: not the network address, nor the broadcast address of IPv4.
    // upstream: pkg/registry/core/service/ipallocator/ipallocator.go NewIPAllocator; excludes the network address and the IPv4 broadcast address
    pub(crate) fn can_allocate(&self, address: IpAddr) -> bool {
        let (number, bits) = number(address);
        let is_last = bits == V4 && number == self.last();
        bits == self.bits && number > self.first && number <= self.last() && !is_last
    }

    /// The last address as a number.
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

/// An address as a number, and its length in bits.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), V4),
        IpAddr::V6(address) => (u128::from(address), V6),
    }
}

/// A number with this many low bits set.
fn mask(ones: u8) -> u128 {
    if ones >= V6 { u128::MAX } else { (1 << ones) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_allocate_network_and_broadcast_addresses() {
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
    fn contains_smaller_networks_and_itself() {
        let network = |text: &str| text.parse::<Cidr>().unwrap();
        let ours = network("10.0.0.0/16");
        assert!(ours.holds(&network("10.0.3.0/24")) && ours.holds(&ours));
        assert!(!ours.holds(&network("10.0.0.0/15")) && !ours.holds(&network("10.1.0.0/24")));
        assert!(!ours.holds(&network("fd00::/64")));
    }
}
