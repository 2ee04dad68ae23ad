//! IP addresses and ranges of them.

use std::net::IpAddr;

use super::{Implementation, no_overload};
use crate::{
    error::EvalError,
    value::{OpaqueValue, Result, Value},
};

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "ip" => |name, args| match args {
            [Value::String(text)] => parse_ip(text).map(ip).map_err(EvalError::new),
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
                .map_err(EvalError::new),
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

fn parse_ip(text: &str) -> std::result::Result<IpAddr, String> {
    let wrong = |why: &str| {
        format!("IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): {why}")
    };
    if let Some((address, zone)) = text.split_once('%') {
        return match address.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) if !zone.is_empty() => {
                Err(format!("IP address {text:?} with zone value is not allowed"))
            }
            Ok(IpAddr::V6(_)) => Err(wrong("zone must be a non-empty string")),
            _ => Err(wrong("unexpected character (at \"%\")")),
        };
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(wrong(&why_not(text))),
    }
}

/// What Go says of a text that is no address.
fn why_not(text: &str) -> String {
    match text.find(['.', ':']) {
        None => return "unable to parse IP".to_owned(),
        Some(at) if text.as_bytes()[at] == b':' => return why_not_six(text),
        Some(_) => {}
    }
    let mut fields = 0;
    let mut digits = 0;
    let mut value = 0;
    for (at, c) in text.char_indices() {
        match c {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return "IPv4 field has octet with leading zero".to_owned();
                }
                value = value * 10 + (c as u32 - '0' as u32);
                digits += 1;
                if value > 255 {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            '.' => {
                if digits == 0 || at == text.len() - 1 {
                    return format!("IPv4 field must have at least one digit (at {:?})", &text[at..]);
                }
                if fields == 3 {
                    return "IPv4 address too long".to_owned();
                }
                fields += 1;
                digits = 0;
                value = 0;
            }
            _ => return format!("unexpected character (at {:?})", &text[at..]),
        }
    }
    "IPv4 address too short".to_owned()
}

/// The same of a text with colons.
fn why_not_six(text: &str) -> String {
    let at = |message: &str, rest: &str| format!("{message} (at {rest:?})");
    let leading = text.starts_with("::");
    let mut gap = leading;
    let mut rest = if leading { &text[2..] } else { text };
    let mut groups = 0;
    while groups < 8 && !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let after = &rest[digits..];
        match after.chars().next() {
            _ if digits > 4 => return at("each group must have 4 or less digits", rest),
            _ if digits == 0 => return at("each colon-separated field must have at least one digit", rest),
            Some('.') if !gap && groups != 6 => {
                return at(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                );
            }
            Some('.') => return why_not(rest),
            Some(':') if after.len() == 1 => return at("colon must be followed by more characters", after),
            None | Some(':') => {}
            Some(_) => return at("unexpected character, want colon", after),
        }
        groups += 1;
        rest = after.strip_prefix(':').unwrap_or(after);
        if let Some(more) = rest.strip_prefix(':') {
            if gap {
                return at("multiple :: in address", rest);
            }
            gap = true;
            rest = more;
        }
    }
    match (rest.is_empty(), gap) {
        (false, _) => at("trailing garbage after address", rest),
        (true, false) => "address string too short".to_owned(),
        (true, true) => "the :: must expand to at least one field of zeros".to_owned(),
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

fn parse_cidr(text: &str) -> std::result::Result<(IpAddr, u8), String> {
    let wrong = |why: &str| {
        format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"
        )
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return Err(wrong("no '/'"));
    };
    let ip: IpAddr = address
        .parse()
        .map_err(|_| wrong(&format!("ParseAddr({address:?}): {}", why_not(address))))?;
    if matches!(ip, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"));
    }
    let bad = || wrong(&format!("bad bits after slash: {bits:?}"));
    if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) || bits.len() > 1 && bits.starts_with('0')
    {
        return Err(bad());
    }
    let number: u8 = bits.parse().map_err(|_| wrong("prefix length out of range"))?;
    if number > if ip.is_ipv4() { 32 } else { 128 } {
        return Err(wrong("prefix length out of range"));
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
        ("containsIP", Value::String(text)) => within(parse_ip(text).map_err(EvalError::new)?),
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
