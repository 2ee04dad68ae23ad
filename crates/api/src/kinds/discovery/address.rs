//! Addresses that can be endpoints of a service: not those that mean the own machine or its own link.

use std::net::IpAddr;

use crate::{
    field::{Error, Path},
    name,
    rules::Errors,
};

/// What is wrong with an address as an endpoint.
pub(crate) fn validate(address: &str, at: &Path<'_>, errors: &mut Errors) {
    let Some(ip) = name::parse_ip_sloppy(address) else {
        errors.push(Error::invalid(at, address, "must be a valid IP address"));
        return;
    };
    if ip.is_unspecified() {
        let detail = format!("may not be unspecified ({address})");
        errors.push(Error::invalid(at, address, detail));
    }
    let (unicast, multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let ranges = [
        (ip.is_loopback(), "loopback range (127.0.0.0/8, ::1/128)"),
        (unicast, "link-local range (169.254.0.0/16, fe80::/10)"),
        (multicast, "link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    for (_, range) in ranges.iter().filter(|(inside, _)| *inside) {
        errors.push(Error::invalid(at, address, format!("may not be in the {range}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_machine_and_own_link_are_no_endpoints() {
        let faults = |address: &str| {
            let mut errors = Errors::new();
            validate(address, &Path::new("a"), &mut errors);
            errors.into_iter().map(|error| error.detail).collect::<Vec<_>>()
        };
        for good in ["10.0.0.1", "2001:db8::1", "224.0.1.1"] {
            assert_eq!(faults(good), [""; 0]);
        }
        assert_eq!(faults("::"), ["may not be unspecified (::)"]);
        for (bad, range) in [
            ("127.1.1.1", "loopback"),
            ("fe80::1", "link-local range"),
            ("169.254.0.1", "link-local range"),
            ("ff12::1", "multicast"),
            ("224.0.0.9", "multicast"),
        ] {
            assert!(faults(bad)[0].contains(range), "{bad}");
        }
    }
}
