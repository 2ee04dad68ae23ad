//! IP addresses and CIDRs, as strict or as sloppy as upstream's parsers.
//!
//! Old fields take forms that today are ambiguous: octets with zeros before them, IPv4 inside IPv6, bits beyond
//! the prefix. New fields take one form only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    field::{Error, Path},
    go,
};

/// Which forms a field takes that is older than the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressStrictness {
    /// Only forms that all programs read the same way.
    Strict,
    /// Everything that was ever taken.
    Sloppy,
}

/// A network, or an address with the length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The address as written; IPv4 inside IPv6 is IPv4.
    pub address: IpAddr,
    /// The address without the bits beyond the prefix.
    pub network: IpAddr,
    /// The length of the prefix, in bits of `network`.
    pub prefix: u32,
}

const NOT_AN_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NOT_A_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const NOT_AN_INTERFACE: &str = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go IsValidIP
/// An address in its one form.
pub fn validate_ip(at: &Path<'_>, value: &str) -> Vec<Error> {
    let errors = validate_legacy_ip(at, value, AddressStrictness::Strict, &[]);
    if !errors.is_empty() {
        return errors;
    }
    let canonical = parse_ip_sloppy(value).map(|ip| ip.to_string());
    uncanonical(at, value, canonical)
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go IsValidIPForLegacyField
/// An address in a field older than the rules. What the old object had is taken again.
pub fn validate_legacy_ip(
    at: &Path<'_>,
    value: &str,
    strictness: AddressStrictness,
    old: &[&str],
) -> Vec<Error> {
    if old.contains(&value) {
        return Vec::new();
    }
    if parse_ip_sloppy(value).is_none() {
        return vec![Error::invalid(at, value, NOT_AN_IP)];
    }
    if strictness == AddressStrictness::Sloppy {
        return Vec::new();
    }
    match value.parse::<IpAddr>() {
        Err(_) => vec![Error::invalid(at, value, "must not have leading 0s")],
        Ok(ip) if is_mapped(ip) => vec![Error::invalid(
            at,
            value,
            "must not be an IPv4-mapped IPv6 address",
        )],
        Ok(_) => Vec::new(),
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go GetWarningsForIP
/// A warning about an address that [`validate_legacy_ip`] accepted and [`validate_ip`] would not.
pub fn ip_warning(at: &Path<'_>, value: &str) -> Option<String> {
    let sloppy = parse_ip_sloppy(value)?;
    let shown = go::quote(value);
    match value.parse::<IpAddr>() {
        Ok(ip) if !is_mapped(ip) => {
            let canonical = ip.to_string();
            (ip.is_ipv6() && canonical != value).then(|| {
                let canonical = go::quote(&canonical);
                format!("{at}: IPv6 address {shown} should be in RFC 5952 canonical format ({canonical})")
            })
        }
        _ => {
            let canonical = go::quote(&sloppy.to_string());
            Some(format!(
                "{at}: non-standard IP address {shown} is invalid: use {canonical}"
            ))
        }
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go IsValidCIDR
/// A network in its one form.
pub fn validate_cidr(at: &Path<'_>, value: &str) -> Vec<Error> {
    let errors = validate_legacy_cidr(at, value, AddressStrictness::Strict, &[]);
    if !errors.is_empty() {
        return errors;
    }
    uncanonical(
        at,
        value,
        parse_cidr_sloppy(value).map(|subnet| subnet.network_text()),
    )
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go IsValidCIDRForLegacyField
/// A network in a field older than the rules. What the old object had is taken again.
pub fn validate_legacy_cidr(
    at: &Path<'_>,
    value: &str,
    strictness: AddressStrictness,
    old: &[&str],
) -> Vec<Error> {
    if old.contains(&value) {
        return Vec::new();
    }
    let Some(subnet) = parse_cidr_sloppy(value) else {
        return vec![Error::invalid(at, value, NOT_A_CIDR)];
    };
    if strictness == AddressStrictness::Sloppy {
        return Vec::new();
    }
    match strict_prefix(value) {
        None => vec![Error::invalid(
            at,
            value,
            "must not have leading 0s in IP or prefix length",
        )],
        Some(ip) if is_mapped(ip) => vec![Error::invalid(
            at,
            value,
            "must not have an IPv4-mapped IPv6 address",
        )],
        Some(_) if subnet.address != subnet.network => {
            vec![Error::invalid(
                at,
                value,
                "must not have bits set beyond the prefix length",
            )]
        }
        Some(_) => Vec::new(),
    }
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go GetWarningsForCIDR
/// Warnings about a network that [`validate_legacy_cidr`] accepted and [`validate_cidr`] would not.
pub fn cidr_warnings(at: &Path<'_>, value: &str) -> Vec<String> {
    let Some(subnet) = parse_cidr_sloppy(value) else {
        return Vec::new();
    };
    let shown = go::quote(value);
    let network = go::quote(&subnet.network_text());
    let mut warnings = Vec::new();
    if subnet.address != subnet.network {
        let single = go::quote(&format!("{}/{}", subnet.address, written_width(value)));
        warnings.push(format!(
            "{at}: CIDR value {shown} is ambiguous in this context (should be {network} or {single}?)"
        ));
    }
    match strict_prefix(value) {
        Some(ip) if !is_mapped(ip) => {
            let canonical = format!("{ip}/{}", subnet.prefix);
            if warnings.is_empty() && ip.is_ipv6() && canonical != value {
                let canonical = go::quote(&canonical);
                warnings.push(format!(
                    "{at}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical})"
                ));
            }
        }
        _ => warnings.push(format!(
            "{at}: non-standard CIDR value {shown} is invalid: use {network}"
        )),
    }
    warnings
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/ip.go IsValidInterfaceAddress
/// An address with the length of its network, in its one form.
pub fn validate_interface_address(at: &Path<'_>, value: &str) -> Vec<Error> {
    let Some(subnet) = parse_cidr_sloppy(value) else {
        return vec![Error::invalid(at, value, NOT_AN_INTERFACE)];
    };
    let mut prefix = written_prefix(value).unwrap_or(subnet.prefix);
    if subnet.address.is_ipv4() && prefix > 32 {
        prefix -= 96;
    }
    uncanonical(at, value, Some(format!("{}/{prefix}", subnet.address)))
}

/// An address, with zeros before octets. IPv4 inside IPv6 is IPv4.
pub fn parse_ip_sloppy(value: &str) -> Option<IpAddr> {
    if value.contains(':') {
        v6_sloppy(value).map(|ip| ip.to_canonical())
    } else {
        v4_sloppy(value).map(IpAddr::V4)
    }
}

/// A network, with zeros before octets and before the length, and with bits beyond the prefix.
pub fn parse_cidr_sloppy(value: &str) -> Option<Subnet> {
    let (address, _) = value.split_once('/')?;
    let prefix = written_prefix(value)?;
    if let Some(v4) = v4_sloppy(address) {
        if prefix > 32 {
            return None;
        }
        let network = IpAddr::V4(mask_v4(v4, prefix));
        return Some(Subnet {
            address: IpAddr::V4(v4),
            network,
            prefix,
        });
    }
    let v6 = IpAddr::V6(v6_sloppy(address)?);
    let IpAddr::V6(bits) = v6 else { return None };
    if prefix > 128 {
        return None;
    }
    let network = IpAddr::V6(mask_v6(bits, prefix)).to_canonical();
    let prefix = if network.is_ipv4() {
        prefix.saturating_sub(96)
    } else {
        prefix
    };
    Some(Subnet {
        address: v6.to_canonical(),
        network,
        prefix,
    })
}

// --- Subnet ---

impl Subnet {
    /// Whether an address lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => mask_v4(address, self.prefix) == network,
            (IpAddr::V6(network), IpAddr::V6(address)) => mask_v6(address, self.prefix) == network,
            _ => false,
        }
    }

    /// The network in its one form.
    pub fn network_text(&self) -> String {
        format!("{}/{}", self.network, self.prefix)
    }
}

fn uncanonical(at: &Path<'_>, value: &str, canonical: Option<String>) -> Vec<Error> {
    match canonical {
        Some(canonical) if canonical != value => {
            let detail = format!("must be in canonical form ({})", go::quote(&canonical));
            vec![Error::invalid(at, value, detail)]
        }
        _ => Vec::new(),
    }
}

fn is_mapped(ip: IpAddr) -> bool {
    ip.is_ipv6() && ip.to_canonical().is_ipv4()
}

/// The address before the slash, if both sides are written without needless zeros.
fn strict_prefix(value: &str) -> Option<IpAddr> {
    let (address, prefix) = value.split_once('/')?;
    let plain = prefix == "0" || !prefix.starts_with('0');
    address.parse().ok().filter(|_| plain)
}

fn written_prefix(value: &str) -> Option<u32> {
    digits(value.split_once('/')?.1)
}

/// How many bits an address has as it is written.
fn written_width(value: &str) -> u32 {
    if value.contains(':') { 128 } else { 32 }
}

/// A small number; zeros before it are fine.
fn digits(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if plain {
        text.parse().ok().filter(|n| *n < 0xFF_FFFF)
    } else {
        None
    }
}

fn v4_sloppy(value: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = value.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(digits(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn v6_sloppy(value: &str) -> Option<Ipv6Addr> {
    let (head, tail) = match value.split_once("::") {
        Some((head, tail)) => (
            groups(
                head,
                if tail.is_empty() {
                    LastGroup::MayBeV4
                } else {
                    LastGroup::Hexadecimal
                },
            )?,
            Some(groups(tail, LastGroup::MayBeV4)?),
        ),
        None => (groups(value, LastGroup::MayBeV4)?, None),
    };
    let mut all = [0; 8];
    match tail {
        None if head.len() == 8 => all.copy_from_slice(&head),
        Some(tail) if head.len() + tail.len() < 8 => {
            all[..head.len()].copy_from_slice(&head);
            all[8 - tail.len()..].copy_from_slice(&tail);
        }
        _ => return None,
    }
    Some(Ipv6Addr::from(all))
}

/// What the last of some groups of an IPv6 address may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastGroup {
    Hexadecimal,
    /// The address ends there.
    MayBeV4,
}

/// Groups of hexadecimal digits between colons.
fn groups(text: &str, last: LastGroup) -> Option<Vec<u16>> {
    let mut groups = Vec::new();
    if text.is_empty() {
        return Some(groups);
    }
    let mut parts = text.split(':').peekable();
    while let Some(part) = parts.next() {
        if part.contains('.') {
            let [a, b, c, d] = v4_sloppy(part)
                .filter(|_| last == LastGroup::MayBeV4 && parts.peek().is_none())?
                .octets();
            groups.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            continue;
        }
        let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
        groups.push(u16::from_str_radix(part, 16).ok().filter(|_| plain)?);
    }
    (groups.len() <= 8).then_some(groups)
}

fn mask_v4(ip: Ipv4Addr, prefix: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(ip.to_bits() & u32::MAX.checked_shl(32 - prefix).unwrap_or(0))
}

fn mask_v6(ip: Ipv6Addr, prefix: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(ip.to_bits() & u128::MAX.checked_shl(128 - prefix).unwrap_or(0))
}

#[cfg(test)]
mod tests;
