//! Addresses that something can be reached at.

use std::net::IpAddr;

use crate::{
    field::{Error, Path},
    name,
    strategy::ErrorList,
};

/// What is wrong with an address that others are to connect to: it must not be one that means a place of their own.
pub(in crate::kinds) fn endpoint_ip(errors: &mut ErrorList, at: &Path<'_>, text: &str) {
    let Some(ip) = name::parse_ip_sloppy(text) else {
        errors.push(Error::invalid(at, text, "must be a valid IP address"));
        return;
    };
    if ip.is_unspecified() {
        let detail = format!("may not be unspecified ({text})");
        errors.push(Error::invalid(at, text, detail));
    }
    let ranges = [
        (
            ip.is_loopback(),
            "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        ),
        (
            is_link_local(ip),
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (
            is_link_local_multicast(ip),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        ),
    ];
    for (within, detail) in ranges {
        if within {
            errors.push(Error::invalid(at, text, detail));
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_ones_own_are_refused() {
        for (text, part) in [
            ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
            ("::1", "loopback"),
            ("169.254.3.4", "link-local range"),
            ("fe90::1", "link-local range"),
            ("224.0.0.9", "link-local multicast"),
            ("ff12::1", "link-local multicast"),
            ("x", "must be a valid IP address"),
        ] {
            let mut errors = ErrorList::new();
            endpoint_ip(&mut errors, &Path::new("ip"), text);
            assert_eq!(errors.len(), 1, "{text}");
            assert!(errors[0].detail.contains(part), "{text}: {}", errors[0].detail);
        }
        let mut errors = ErrorList::new();
        endpoint_ip(&mut errors, &Path::new("ip"), "10.0.0.1");
        endpoint_ip(&mut errors, &Path::new("ip"), "2001:db8::1");
        assert!(errors.is_empty());
    }
}
