use proptest::prelude::*;

use super::*;

fn detail(errors: Vec<Error>) -> String {
    errors
        .into_iter()
        .map(|e| e.detail)
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn new_fields_take_one_form_of_an_address() {
    let at = Path::new("f");
    for (value, detail_text) in [
        ("10.0.0.1", ""),
        ("2001:db8::1", ""),
        ("::", ""),
        ("x", NOT_AN_IP),
        ("", NOT_AN_IP),
        ("1.2.3", NOT_AN_IP),
        ("1.2.3.4.5", NOT_AN_IP),
        ("1.2.3.256", NOT_AN_IP),
        ("1.2.3.4%eth0", NOT_AN_IP),
        ("fe80::1%eth0", NOT_AN_IP),
        ("1:2:3:4:5:6:7::8", NOT_AN_IP),
        ("1:2:3:4:5:6:7:8::", NOT_AN_IP),
        (
            "1:2:3:4:5:6:7::",
            "must be in canonical form (\"1:2:3:4:5:6:7:0\")",
        ),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("::ffff:1.2.3.04", "must not have leading 0s"),
        ("2001:DB8::1", "must be in canonical form (\"2001:db8::1\")"),
        ("2001:db8:0:0::1", "must be in canonical form (\"2001:db8::1\")"),
    ] {
        assert_eq!(detail(validate_ip(&at, value)), detail_text, "{value}");
    }
}

#[test]
fn old_fields_take_what_they_took() {
    let at = Path::new("f");
    for value in ["010.0.0.1", "::ffff:1.2.3.4", "2001:DB8::1"] {
        assert!(validate_legacy_ip(&at, value, AddressStrictness::Sloppy, &[]).is_empty());
    }
    assert!(validate_legacy_ip(&at, "2001:DB8::1", AddressStrictness::Strict, &[]).is_empty());
    assert_eq!(
        validate_legacy_ip(&at, "010.0.0.1", AddressStrictness::Strict, &[]).len(),
        1
    );
    assert!(validate_legacy_ip(&at, "bogus", AddressStrictness::Strict, &["bogus"]).is_empty());
}

#[test]
fn networks_have_no_bits_beyond_the_prefix() {
    let at = Path::new("f");
    for (value, detail_text) in [
        ("10.0.0.0/8", ""),
        ("0.0.0.0/0", ""),
        ("2001:db8::/64", ""),
        ("10.0.0.0", NOT_A_CIDR),
        ("10.0.0.0/33", NOT_A_CIDR),
        ("10.0.0.0/", NOT_A_CIDR),
        ("10.0.0.0/+8", NOT_A_CIDR),
        ("::/129", NOT_A_CIDR),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("010.0.0.0/8", "must not have leading 0s in IP or prefix length"),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
        ("10.1.0.0/8", "must not have bits set beyond the prefix length"),
        ("2001:DB8::/64", "must be in canonical form (\"2001:db8::/64\")"),
    ] {
        assert_eq!(detail(validate_cidr(&at, value)), detail_text, "{value}");
    }
    assert!(validate_legacy_cidr(&at, "10.1.0.0/08", AddressStrictness::Sloppy, &[]).is_empty());
}

#[test]
fn interfaces_keep_their_bits() {
    let at = Path::new("f");
    assert!(validate_interface_address(&at, "192.168.1.5/24").is_empty());
    assert_eq!(
        detail(validate_interface_address(&at, "::ffff:192.168.0.1/120")),
        "must be in canonical form (\"192.168.0.1/24\")"
    );
    assert_eq!(
        detail(validate_interface_address(&at, "1.2.3.4")),
        NOT_AN_INTERFACE
    );
}

#[test]
fn odd_forms_earn_a_warning() {
    let at = Path::new("f");
    for (value, warning) in [
        ("1.2.3.4", None),
        ("2001:db8::1", None),
        (
            "01.2.3.4",
            Some("f: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\""),
        ),
        (
            "::ffff:1.2.3.4",
            Some("f: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""),
        ),
        (
            "::AB",
            Some("f: IPv6 address \"::AB\" should be in RFC 5952 canonical format (\"::ab\")"),
        ),
    ] {
        assert_eq!(ip_warning(&at, value).as_deref(), warning);
    }
    for (value, warnings) in [
        ("10.0.0.0/8", vec![]),
        (
            "10.1.0.0/8",
            vec![
                "f: CIDR value \"10.1.0.0/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \
                 \"10.1.0.0/32\"?)",
            ],
        ),
        (
            "010.0.0.0/8",
            vec!["f: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""],
        ),
        (
            "AB::/16",
            vec!["f: IPv6 CIDR value \"AB::/16\" should be in RFC 5952 canonical format (\"ab::/16\")"],
        ),
    ] {
        assert_eq!(cidr_warnings(&at, value), warnings);
    }
}

proptest! {
    #[test]
    fn what_is_strictly_an_address_is_sloppily_the_same(bits: u128, small: u32) {
        for ip in [IpAddr::V6(Ipv6Addr::from_bits(bits)), IpAddr::V4(Ipv4Addr::from_bits(small))] {
            prop_assert_eq!(parse_ip_sloppy(&ip.to_string()), Some(ip.to_canonical()));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[0-9a-fA-F:./%]{0,45}") {
        let at = Path::new("f");
        let sloppy = parse_ip_sloppy(&text).is_some();
        if text.parse::<IpAddr>().is_ok() { prop_assert!(sloppy); }
        let _ = (validate_ip(&at, &text), validate_cidr(&at, &text), validate_interface_address(&at, &text), cidr_warnings(&at, &text));
    }
}
