//! Formats of strings and numbers (`format` in OpenAPI schemas).

use k3_duration::parse_worded;

use super::super::{node::Kind, pattern::Pattern};
use crate::{
    base64::is_base64,
    kinds::url,
    name::{parse_cidr_sloppy, parse_ip_sloppy},
};

/// A format that values are validated by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    DateTimePlain,
    ShortName,
    LongName,
}

/// The formats of texts. Dashes are not counted when a name is looked up; the usual spelling is the one that is reported.
const TEXTS: [(&str, Format); 27] = [
    ("bsonobjectid", Format::BsonObjectId),
    ("uri", Format::Uri),
    ("email", Format::Email),
    ("hostname", Format::Hostname),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("cidr", Format::Cidr),
    ("mac", Format::Mac),
    ("uuid", Format::Uuid),
    ("uuid3", Format::Uuid3),
    ("uuid4", Format::Uuid4),
    ("uuid5", Format::Uuid5),
    ("isbn", Format::Isbn),
    ("isbn10", Format::Isbn10),
    ("isbn13", Format::Isbn13),
    ("creditcard", Format::CreditCard),
    ("ssn", Format::Ssn),
    ("hexcolor", Format::HexColor),
    ("rgbcolor", Format::RgbColor),
    ("byte", Format::Byte),
    ("password", Format::Password),
    ("date", Format::Date),
    ("duration", Format::Duration),
    ("date-time", Format::DateTime),
    ("datetime", Format::DateTimePlain),
    ("k8s-short-name", Format::ShortName),
    ("k8s-long-name", Format::LongName),
];

const NUMBERS: [(&str, Format, Kind); 4] = [
    ("int32", Format::Int32, Kind::Integer),
    ("int64", Format::Int64, Kind::Integer),
    ("float", Format::Float, Kind::Number),
    ("double", Format::Double, Kind::Number),
];

/// A name of its own, and the parts of a longer one. How long they are is counted apart: expressions that count large
/// classes of characters are large.
const HOST: &str = r"^[a-zA-Z0-9\p{S}\p{L}](-?[a-zA-Z0-9\p{S}\p{L}]*)?$";
const LABEL: &str = r"^[a-zA-Z0-9\p{S}\p{L}]([a-zA-Z0-9\p{S}\p{L}-]*[a-zA-Z0-9\p{S}\p{L}])?$";
const TOP_LABEL: &str = r"^[a-zA-Z\p{L}]+$";
const CREDIT_CARD: &str = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$";
const RGB: &str = r"^rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)$";

// --- Format ---

impl Format {
    /// The format with this name; `None` if values of this kind are not validated by it.
    pub(in crate::custom) fn read(name: &str, kind: Kind) -> Option<Format> {
        if name.is_empty() {
            return None;
        }
        match kind {
            Kind::Integer | Kind::Number => NUMBERS
                .iter()
                .find(|(known, _, of)| *known == name && *of == kind)
                .map(|(_, format, _)| *format),
            Kind::Any | Kind::String => {
                let exact = TEXTS.iter().find(|(known, _)| *known == name);
                let plain = name.replace('-', "");
                exact
                    .or_else(|| TEXTS.iter().find(|(known, _)| known.replace('-', "") == plain))
                    .map(|(_, format)| *format)
            }
            Kind::Object | Kind::Array | Kind::Boolean => None,
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        let texts = TEXTS.iter().map(|(name, format)| (*name, *format));
        let mut all = texts.chain(NUMBERS.iter().map(|(name, format, _)| (*name, *format)));
        all.find(|(_, format)| *format == self)
            .map_or("", |(name, _)| name)
    }

    /// Whether a text is of this format. Formats of numbers say nothing of texts.
    // upstream: vendor/k8s.io/kube-openapi/pkg/validation/strfmt/default.go IsHostname, IsEmail, IsUUID
    pub(crate) fn fits(self, text: &str) -> bool {
        match self {
            Format::Int32 | Format::Int64 | Format::Float | Format::Double | Format::Password => true,
            Format::BsonObjectId => text.len() == 24 && is_hex(text),
            Format::Uri => url::Url::parse(text, url::UrlForm::Request).is_ok(),
            Format::Email => is_email(text),
            Format::Hostname => is_hostname(text),
            Format::Ipv4 => text.contains('.') && parse_ip_sloppy(text).is_some(),
            Format::Ipv6 => text.contains(':') && text.parse::<std::net::IpAddr>().is_ok(),
            Format::Cidr => parse_cidr_sloppy(text).is_some(),
            Format::Mac => is_mac(text),
            Format::Uuid => is_uuid(text, None),
            Format::Uuid3 => is_uuid(text, Some('3')),
            Format::Uuid4 => is_uuid(text, Some('4')),
            Format::Uuid5 => is_uuid(text, Some('5')),
            Format::Isbn => is_isbn10(text) || is_isbn13(text),
            Format::Isbn10 => is_isbn10(text),
            Format::Isbn13 => is_isbn13(text),
            Format::CreditCard => is_credit_card(text),
            Format::Ssn => text.len() == 11 && matches(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$", text),
            Format::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && is_hex(digits)
            }
            Format::RgbColor => matches(RGB, text),
            Format::Byte => is_base64(text),
            Format::Date => is_date(text),
            Format::Duration => parse_worded(text).is_some(),
            Format::DateTime | Format::DateTimePlain => is_date_time(text),
            Format::ShortName => is_short_name(text, 63),
            Format::LongName => text.len() <= 253 && text.split('.').all(|part| is_short_name(part, 253)),
        }
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(text))
}

fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|part| part.len() > 63) {
        return false;
    }
    let Some((labels, top)) = text.rsplit_once('.') else {
        return matches(HOST, text);
    };
    top.chars().count() >= 2
        && matches(TOP_LABEL, top)
        && labels.split('.').all(|label| matches(LABEL, label))
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Four groups of base64 digits, the last one filled up; an empty text is none.
fn is_short_name(text: &str, max: usize) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends =
        bytes.first().is_some_and(|byte| inner(*byte)) && bytes.last().is_some_and(|byte| inner(*byte));
    text.len() <= max && ends && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

/// Groups of 8, 4, 4, 4 and 12 digits, with or without dashes between them.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else {
            return false;
        };
        let variant = index == 3 && matches!(version, Some('4' | '5'));
        let wrong = (index == 2 && version.is_some_and(|version| !group.starts_with(version)))
            || (variant && !group.starts_with(['8', '9', 'a', 'b', 'A', 'B']));
        if wrong || !is_hex(group) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Pairs of digits between colons or dashes, or groups of four between dots: 6, 8 or 20 bytes in all.
fn is_mac(text: &str) -> bool {
    let separator = if text.contains(':') {
        ':'
    } else if text.contains('-') {
        '-'
    } else {
        '.'
    };
    let width = if separator == '.' { 4 } else { 2 };
    let groups: Vec<_> = text.split(separator).collect();
    let bytes = groups.len() * width / 2;
    matches!(bytes, 6 | 8 | 20) && groups.iter().all(|group| group.len() == width && is_hex(group))
}

fn without_spaces(text: &str) -> Vec<u8> {
    let spaces = [b'\t', b'\n', 0x0c, b'\r', b' ', b'-'];
    text.bytes().filter(|byte| !spaces.contains(byte)).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_spaces(text);
    let [first @ .., last] = digits.as_slice() else {
        return false;
    };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let check = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..)
        .zip(first)
        .map(|(weight, digit)| weight * u32::from(digit - b'0'))
        .sum();
    (sum + 10 * check).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = without_spaces(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights
        .zip(&digits[..12])
        .map(|(weight, digit)| weight * u32::from(digit - b'0'))
        .sum();
    u32::from(digits[12] - b'0') == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !matches(CREDIT_CARD, &digits) {
        return false;
    }
    let doubled = |(index, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0') * if index.is_multiple_of(2) { 1 } else { 2 };
        if digit >= 10 { digit % 10 + 1 } else { digit }
    };
    digits
        .bytes()
        .rev()
        .enumerate()
        .map(doubled)
        .sum::<u32>()
        .is_multiple_of(10)
}

/// `2006-01-02`, a day that the calendar has.
fn is_date(text: &str) -> bool {
    text.len() == 10 && text.is_ascii() && crate::time::Time::parse(&format!("{text}T00:00:00Z")).is_ok()
}

/// A day, `t`, and a time of that day with a zone. What follows another `t` is not looked at.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let pair = |text: &str, max: &str| {
        text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()) && text <= max
    };
    let Some((clock, zone)) = text.split_at_checked(8) else {
        return false;
    };
    let clock: Vec<_> = clock.split(':').collect();
    let [hours, minutes, seconds] = clock.as_slice() else {
        return false;
    };
    if !(pair(hours, "23") && pair(minutes, "59") && pair(seconds, "59")) {
        return false;
    }
    let is_zone = |zone: &str| {
        zone == "z"
            || zone.strip_prefix(['+', '-']).is_some_and(|zone| {
                zone.split_once(':')
                    .is_some_and(|(hours, minutes)| pair(hours, "99") && pair(minutes, "99"))
            })
    };
    if is_zone(zone) {
        return true;
    }
    // Any one character may stand before the digits of a fraction.
    let mut rest = zone.chars();
    let dot = rest.next();
    let fraction = rest.as_str();
    let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    dot.is_some() && zone.len() < fraction.len() && is_zone(zone)
}

/// An address, alone or between angle brackets after a name: as mail programs read it, without comments and groups.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if let Some(start) = text.rfind('<') {
        let (name, rest) = text.split_at(start);
        let Some(address) = rest.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else {
            return false;
        };
        return is_phrase(name.trim()) && is_address(address);
    }
    is_address(text)
}

/// A name before an address: several atoms, or one text in quotes.
fn is_phrase(name: &str) -> bool {
    if let Some(quoted) = name.strip_prefix('"') {
        return quoted.strip_suffix('"').is_some_and(|inner| !inner.contains('"'));
    }
    name.split_whitespace()
        .all(|word| word.chars().all(|c| is_atom(c) || c == '.'))
}

fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() >= 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']') && domain.len() > 2;
    (quoted || is_dotted(local)) && (literal || is_dotted(domain))
}

/// Words with single dots between them.
fn is_dotted(text: &str) -> bool {
    text.split('.')
        .all(|word| !word.is_empty() && word.chars().all(is_atom))
}

fn is_atom(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each format what is one and what is none.
    const SAMPLES: [(Format, &[&str], &[&str]); 20] = [
        (Format::Uri, &["/a", "http://a/b"], &["", "a b"]),
        (
            Format::Email,
            &["a@b", "X <a.b@c.de>"],
            &["a", "@b", "a@b.", "a b@c"],
        ),
        (
            Format::Hostname,
            &["a", "a-b.com", "1.example"],
            &["", "-a", "a_b", "a..com"],
        ),
        (Format::Ipv4, &["1.2.3.4", "01.2.3.4"], &["1.2.3", "::1"]),
        (Format::Ipv6, &["::1", "fe80::2"], &["1.2.3.4", ":"]),
        (
            Format::Cidr,
            &["10.0.0.0/8", "::/0"],
            &["10.0.0.0", "10.0.0.0/33"],
        ),
        (
            Format::Mac,
            &["01:23:45:67:89:ab", "0123.4567.89ab"],
            &["01:23:45", "01-23:45-67-89-ab"],
        ),
        (
            Format::Uuid,
            &["123E4567-e89b-12d3-a456-426614174000"],
            &["123", ""],
        ),
        (
            Format::Uuid4,
            &["00000000-0000-4000-8000-000000000000"],
            &["00000000-0000-3000-8000-000000000000"],
        ),
        (
            Format::Isbn10,
            &["0321751043", "3-598-21507-X"],
            &["0321751042", "1"],
        ),
        (Format::Isbn13, &["978-0321751041"], &["978-0321751042"]),
        (
            Format::CreditCard,
            &["4111 1111 1111 1111"],
            &["4111 1111 1111 1112", ""],
        ),
        (Format::Ssn, &["111-11-1111"], &["111111111", "111-11-111"]),
        (Format::HexColor, &["#fff", "A0B0C0"], &["#ff", "ggg"]),
        (
            Format::RgbColor,
            &["rgb(0, 1,255)"],
            &["rgb(0,1)", "rgb(0,1,256)"],
        ),
        (Format::Byte, &["YQ==", "YWJj"], &["", "YQ", "Y==="]),
        (Format::Date, &["2024-02-29"], &["2023-02-29", "2024-2-29"]),
        (
            Format::Duration,
            &["1h30m", "3 days", "2 Weeks"],
            &["", "x", "3 parsecs"],
        ),
        (
            Format::DateTime,
            &["2020-01-01T00:00:00Z", "2020-01-01t23:59:59.5+01:00"],
            &["2020-01-01", "2020-01-01T24:00:00Z", "2020-01-01T00:00:00"],
        ),
        (Format::LongName, &["a.b-c", "1"], &["A", "a.", "-a"]),
    ];

    #[test]
    fn a_text_is_of_a_format_or_not() {
        for (format, good, bad) in SAMPLES {
            for text in good {
                assert!(format.fits(text), "{format:?} {text:?}");
            }
            for text in bad {
                assert!(!format.fits(text), "{format:?} {text:?}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn validates_arbitrary_text_without_panic(text in "\\PC{0,24}") {
            for (_, format) in TEXTS {
                format.fits(&text);
            }
        }
    }
}
