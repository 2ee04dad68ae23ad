//! IP addresses and ranges of them.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go IP, isIP, ipIsCanonical
// upstream: staging/src/k8s.io/apiserver/pkg/cel/library/cidr.go CIDR, cidrContainsIP, cidrContainsCIDR

use std::net::IpAddr;

use super::{Implementation, address_syntax::AddressSyntaxError, no_overload};
use crate::{
    error::EvalError,
    value::{OpaqueValue, Result, Value},
};

/// Why a text is not an IP address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IpError {
    #[error("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {source}")]
    Syntax {
        text: String,
        source: AddressSyntaxError,
    },
    #[error("IP address {0:?} with zone value is not allowed")]
    Zone(String),
    #[error("IPv4-mapped IPv6 address {0:?} is not allowed")]
    Mapped(String),
}

/// Why a text is not a range of IP addresses.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CidrError {
    #[error(
        "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {source}"
    )]
    Syntax { text: String, source: PrefixSyntaxError },
    #[error("IPv4-mapped IPv6 address {0:?} is not allowed")]
    Mapped(String),
}

/// What Go's `netip.ParsePrefix` reports.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrefixSyntaxError {
    #[error("no '/'")]
    MissingSlash,
    #[error("ParseAddr({text:?}): {source}")]
    Address {
        text: String,
        source: AddressSyntaxError,
    },
    #[error("bad bits after slash: {0:?}")]
    InvalidBits(String),
    #[error("prefix length out of range")]
    OutOfRange,
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "ip" => |name, args| match args {
            [Value::String(text)] => parse_ip(text).map(ip).map_err(failure),
            [Value::Opaque(OpaqueValue::Cidr(address, _))] => Ok(ip(*address)),
            _ => no_overload(name, args),
        },
        "isIP" => |name, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
            _ => no_overload(name, args),
        },
        "ip.isCanonical" => |name, args| match args {
            [Value::String(text)] => parse_ip(text)
                .map(|ip| Value::Bool(ip.to_string() == **text))
                .map_err(failure),
            _ => no_overload(name, args),
        },
        "cidr" => |name, args| match args {
            [Value::String(text)] => cidr(text),
            _ => no_overload(name, args),
        },
        "isCIDR" => |name, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
            _ => no_overload(name, args),
        },
        "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast" => of_ip,
        "containsIP" | "containsCIDR" => contains,
        "prefixLength" => |name, args| match args {
            [Value::Opaque(OpaqueValue::Cidr(_, bits))] => Ok(Value::Int((*bits).into())),
            _ => no_overload(name, args),
        },
        "masked" => |name, args| match args {
            [Value::Opaque(OpaqueValue::Cidr(address, bits))] => {
                Ok(Value::Opaque(OpaqueValue::Cidr(mask(*address, *bits), *bits)))
            }
            _ => no_overload(name, args),
        },
        _ => return None,
    })
}

fn ip<'a>(address: IpAddr) -> Value<'a> {
    Value::Opaque(OpaqueValue::Ip(address))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failure(error: IpError) -> EvalError {
    EvalError::new(error.to_string())
}

fn parse_ip(text: &str) -> std::result::Result<IpAddr, IpError> {
    let syntax = |source| IpError::Syntax {
        text: text.to_owned(),
        source,
    };
    if let Some((address, zone)) = text.split_once('%') {
        return match address.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) if !zone.is_empty() => Err(IpError::Zone(text.to_owned())),
            Ok(IpAddr::V6(_)) => Err(syntax(AddressSyntaxError::EMPTY_ZONE)),
            _ => Err(syntax(AddressSyntaxError::unexpected_zone())),
        };
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(IpError::Mapped(text.to_owned()))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(syntax(AddressSyntaxError::of(text))),
    }
}

fn cidr<'a>(text: &str) -> Result<'a> {
    match parse_cidr(text) {
        Ok((address, bits)) => Ok(Value::Opaque(OpaqueValue::Cidr(address, bits))),
        Err(why) => Err(EvalError::new(format!(
            "network address parse error during conversion from string: {why}"
        ))),
    }
}

fn parse_cidr(text: &str) -> std::result::Result<(IpAddr, u8), CidrError> {
    let syntax = |source| CidrError::Syntax {
        text: text.to_owned(),
        source,
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(syntax(PrefixSyntaxError::MissingSlash));
    };
    let ip: IpAddr = address.parse().map_err(|_| {
        syntax(PrefixSyntaxError::Address {
            text: address.to_owned(),
            source: AddressSyntaxError::of(address),
        })
    })?;
    if matches!(ip, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(CidrError::Mapped(text.to_owned()));
    }
    if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) || bits.len() > 1 && bits.starts_with('0')
    {
        return Err(syntax(PrefixSyntaxError::InvalidBits(bits.to_owned())));
    }
    let number: u8 = bits.parse().map_err(|_| syntax(PrefixSyntaxError::OutOfRange))?;
    if number > if ip.is_ipv4() { 32 } else { 128 } {
        return Err(syntax(PrefixSyntaxError::OutOfRange));
    }
    Ok((ip, number))
}

/// A range as text.
pub(crate) fn cidr_text(address: IpAddr, bits: u8) -> String {
    format!("{address}/{bits}")
}

fn of_ip<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::Opaque(OpaqueValue::Ip(address))] = args else {
        return no_overload(name, args);
    };
    let (multicast, local) = match address {
        IpAddr::V4(v4) => (v4.octets()[..3] == [224, 0, 0], v4.is_link_local()),
        IpAddr::V6(v6) => (v6.segments()[0] & 0xff0f == 0xff02, v6.is_unicast_link_local()),
    };
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    Ok(match name {
        "family" => Value::Int(if address.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(address.is_unspecified()),
        "isLoopback" => Value::Bool(address.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(multicast),
        "isLinkLocalUnicast" => Value::Bool(local),
        _ => Value::Bool(
            !broadcast
                && !address.is_unspecified()
                && !address.is_loopback()
                && !address.is_multicast()
                && !local,
        ),
    })
}

fn contains<'a>(name: &str, args: &[Value<'a>]) -> Result<'a> {
    let [Value::Opaque(OpaqueValue::Cidr(address, bits)), other] = args else {
        return no_overload(name, args);
    };
    let within =
        |inner: IpAddr| inner.is_ipv4() == address.is_ipv4() && mask(inner, *bits) == mask(*address, *bits);
    Ok(Value::Bool(match (name, other) {
        ("containsIP", Value::Opaque(OpaqueValue::Ip(inner))) => within(*inner),
        ("containsIP", Value::String(text)) => within(parse_ip(text).map_err(failure)?),
        ("containsCIDR", Value::Opaque(OpaqueValue::Cidr(inner, inner_bits))) => {
            within(*inner) && bits <= inner_bits
        }
        ("containsCIDR", Value::String(text)) => match cidr(text)? {
            Value::Opaque(OpaqueValue::Cidr(inner, inner_bits)) => within(inner) && *bits <= inner_bits,
            _ => false,
        },
        _ => return no_overload(name, args),
    }))
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}
