//! Certificates for requests: with the subject, the key and the names of the request, byte for byte, and nothing else of it.

use super::{
    der::{
        BIT_STRING, BOOLEAN, GENERALIZED_TIME, INTEGER, OBJECT, OCTET_STRING, Reader, SEQUENCE, UTC_TIME,
        part,
    },
    pem,
    x509::{ALTERNATIVE_NAMES, BASIC_CONSTRAINTS, Certificate, Request, read_extension},
};
use crate::{base64, time::Time};

const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const KEY_OF_AUTHORITY: &[u8] = &[0x55, 0x1d, 0x23];
const KEY_OF_SUBJECT: &[u8] = &[0x55, 0x1d, 0x0e];
/// What the numbers of extended usages begin with.
const PURPOSES: [u8; 7] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03];

/// Usages of the key itself, by the bit that each has.
const BITS: [(&str, u8); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];
/// Usages beyond that, by the number that each has.
const NUMBERS: [(&str, u8); 10] = [
    ("server auth", 1),
    ("client auth", 2),
    ("code signing", 3),
    ("email protection", 4),
    ("s/mime", 4),
    ("ipsec end system", 5),
    ("ipsec tunnel", 6),
    ("ipsec user", 7),
    ("timestamping", 8),
    ("ocsp signing", 9),
];

/// A certificate that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Issue<'i> {
    /// The request, in PEM.
    pub request: &'i str,
    /// What the certificate is to be used for, in the words of the API.
    pub usages: &'i [String],
    /// When it begins to be valid.
    pub from: Time,
    /// When it ends to be valid, unless the authority ends before.
    pub to: Time,
    /// Random bytes, of which its number is made.
    pub serial: [u8; 16],
    /// The certificate of the authority, which it has signed itself, in PEM.
    pub authority: &'i str,
}

/// What of an authority goes into the certificates that it signs.
struct Authority<'d> {
    /// How it signs.
    algorithm: &'d [u8],
    name: &'d [u8],
    /// The mark of its key, if it has one.
    key: Option<&'d [u8]>,
}

// --- Issue ---

impl Issue<'_> {
    /// Makes the certificate, in PEM. `sign` signs bytes with the key of the authority.
    pub fn certificate(&self, sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, String>) -> Result<String, String> {
        let request = block(self.request, "CERTIFICATE REQUEST")?;
        let request = Request::read(&request)?;
        let authority = block(self.authority, "CERTIFICATE")?;
        // Nobody can vouch for longer than they are vouched for themselves.
        let end = Certificate::read(&authority)?.not_after;
        let to = end.map_or(self.to, |end| end.min(self.to));
        let authority = Authority::read(&authority).ok_or("the certificate of the authority is malformed")?;
        let inner = Issue { to, ..*self }.inner(&request, &authority);
        let signature = sign(&inner)?;
        let signature = element(BIT_STRING, &[&[0], &*signature]);
        let whole = element(SEQUENCE, &[&inner, authority.algorithm, &signature]);
        Ok(armoured(&whole))
    }

    fn inner(&self, request: &Request<'_>, authority: &Authority<'_>) -> Vec<u8> {
        // The first bit would say that it is below zero; the second one makes it as long as it is.
        let mut serial = self.serial;
        serial[0] = serial[0] & 0x7f | 0x40;
        element(
            SEQUENCE,
            &[
                &element(part(0), &[&element(INTEGER, &[&[2]])]),
                &element(INTEGER, &[&serial]),
                authority.algorithm,
                authority.name,
                &element(SEQUENCE, &[&time(self.from), &time(self.to)]),
                &element(SEQUENCE, &[request.subject]),
                request.public_key,
                &element(
                    part(3),
                    &[&element(SEQUENCE, &[&self.extensions(request, authority)])],
                ),
            ],
        )
    }

    fn extensions(&self, request: &Request<'_>, authority: &Authority<'_>) -> Vec<u8> {
        let mut all = Vec::new();
        let bits = BITS.iter().filter(|(usage, _)| self.has(usage));
        if let Some(bits) = key_usage(bits.map(|(_, bit)| *bit)) {
            all.extend(extension(KEY_USAGE, true, &bits));
        }
        let numbers = NUMBERS.iter().filter(|(usage, _)| self.has(usage));
        let purposes: Vec<u8> = numbers
            .flat_map(|(_, number)| element(OBJECT, &[&PURPOSES, &[*number]]))
            .collect();
        if !purposes.is_empty() {
            all.extend(extension(EXTENDED_USAGE, false, &element(SEQUENCE, &[&purposes])));
        }
        all.extend(extension(BASIC_CONSTRAINTS, true, &element(SEQUENCE, &[])));
        if let Some(key) = authority.key {
            let value = element(SEQUENCE, &[&element(0x80, &[key])]);
            all.extend(extension(KEY_OF_AUTHORITY, false, &value));
        }
        if let Some(names) = request.extension(ALTERNATIVE_NAMES) {
            // Names without a subject are all that tells whom it is for.
            all.extend(extension(ALTERNATIVE_NAMES, request.subject.is_empty(), names));
        }
        all
    }

    fn has(&self, usage: &str) -> bool {
        self.usages.iter().any(|asked| asked == usage)
    }
}

// --- Authority ---

impl<'d> Authority<'d> {
    fn read(bytes: &'d [u8]) -> Option<Self> {
        let mut inner = Reader::new(bytes).enter(SEQUENCE)?.enter(SEQUENCE)?;
        inner.optional(part(0));
        inner.next(INTEGER)?;
        let algorithm = inner.next(SEQUENCE)?.whole;
        inner.next(SEQUENCE)?;
        inner.next(SEQUENCE)?;
        let name = inner.next(SEQUENCE)?.whole;
        inner.next(SEQUENCE)?;
        let mut key = None;
        let extensions = inner.enter(part(3)).and_then(|mut list| list.enter(SEQUENCE));
        let mut extensions = extensions.unwrap_or_else(|| Reader::new(&[]));
        while let Some((found, value)) = read_extension(&mut extensions) {
            if found == KEY_OF_SUBJECT {
                key = Some(Reader::new(value).next(OCTET_STRING)?.content);
            }
        }
        Some(Authority { algorithm, name, key })
    }
}

// --- bytes ---

fn block(text: &str, kind: &str) -> Result<Vec<u8>, String> {
    let blocks = pem::blocks(text.as_bytes()).into_iter();
    let mut blocks = blocks.filter(|block| block.kind == kind);
    let block = blocks.next();
    Ok(block.ok_or_else(|| format!("no PEM block {kind}"))?.bytes)
}

/// Bytes as PEM has them: 64 letters a line.
fn armoured(bytes: &[u8]) -> String {
    let letters = base64::encode(bytes);
    let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = &*letters;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text + "-----END CERTIFICATE-----\n"
}

/// An element of parts, one after the other.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    let digits = length.to_be_bytes();
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count()..];
    match digits {
        [] => bytes.push(0),
        [short @ 0..=0x7f] => bytes.push(*short),
        long => {
            // A length has eight digits at most.
            bytes.push(0x80 | u8::try_from(long.len()).unwrap_or(8));
            bytes.extend(long);
        }
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

fn extension(name: &[u8], is_critical: bool, value: &[u8]) -> Vec<u8> {
    let name = element(OBJECT, &[name]);
    let value = element(OCTET_STRING, &[value]);
    if is_critical {
        element(SEQUENCE, &[&name, &element(BOOLEAN, &[&[0xff]]), &value])
    } else {
        element(SEQUENCE, &[&name, &value])
    }
}

/// Bits as a text of bits, the first one first; `None` if none is set.
fn key_usage(bits: impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let mut bytes = [0_u8; 2];
    let mut last = None;
    for bit in bits {
        bytes[usize::from(bit / 8)] |= 0x80 >> (bit % 8);
        last = last.max(Some(bit));
    }
    let last = last?;
    let used = &bytes[..=usize::from(last / 8)];
    Some(element(BIT_STRING, &[&[7 - last % 8], used]))
}

/// A time: two digits for the year while they suffice.
fn time(time: Time) -> Vec<u8> {
    let text = time.truncated().to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    match digits.strip_prefix("20") {
        Some(short) if &short[..2] < "50" => element(UTC_TIME, &[short.as_bytes(), b"Z"]),
        _ => element(GENERALIZED_TIME, &[digits.as_bytes(), b"Z"]),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::samples::{AUTHORITY, REQUEST},
        *,
    };

    #[test]
    fn lengths_have_one_form() {
        assert_eq!(element(4, &[&[7]]), [4, 1, 7]);
        assert_eq!(element(4, &[]), [4, 0]);
        assert_eq!(element(4, &[&[0; 0x80]])[..3], [4, 0x81, 0x80]);
        assert_eq!(element(4, &[&[0; 0x1234]])[..4], [4, 0x82, 0x12, 0x34]);
    }

    #[test]
    fn usages_are_bits() {
        assert_eq!(key_usage([].into_iter()), None);
        assert_eq!(key_usage([0, 2].into_iter()), Some(vec![3, 2, 5, 0xa0]));
        assert_eq!(key_usage([8].into_iter()), Some(vec![3, 3, 7, 0, 0x80]));
    }

    #[test]
    fn times_have_four_digits_for_the_year_where_two_would_mislead() {
        let told = |text: &str| {
            let element = time(Time::parse(text).unwrap());
            (element[0], String::from_utf8(element[2..].to_vec()).unwrap())
        };
        assert_eq!(
            told("2049-12-31T23:59:59Z"),
            (UTC_TIME, "491231235959Z".to_owned())
        );
        assert_eq!(
            told("2050-01-01T00:00:00Z"),
            (GENERALIZED_TIME, "20500101000000Z".to_owned())
        );
    }

    #[test]
    fn a_certificate_says_what_the_request_and_the_authority_say() {
        let usages = ["client auth".to_owned(), "digital signature".to_owned()];
        let issue = Issue {
            request: REQUEST,
            usages: &usages,
            from: Time::parse("2026-01-01T00:00:00Z").unwrap(),
            to: Time::parse("2027-01-01T00:00:00Z").unwrap(),
            serial: [0xff; 16],
            authority: AUTHORITY,
        };
        let mut signed = Vec::new();
        let text = issue
            .certificate(|bytes| {
                signed = bytes.to_vec();
                Ok(vec![1, 2, 3])
            })
            .unwrap();
        let bytes = block(&text, "CERTIFICATE").unwrap();
        let certificate = Certificate::read(&bytes).unwrap();
        assert_eq!(certificate.not_after, Some(issue.to));
        let request = block(REQUEST, "CERTIFICATE REQUEST").unwrap();
        assert_eq!(
            certificate.public_key,
            Request::read(&request).unwrap().public_key
        );
        assert!(!certificate.is_authority);
        assert!(bytes.windows(signed.len()).any(|part| part == signed));
    }

    #[test]
    fn a_certificate_ends_with_its_authority_at_the_latest() {
        let issue = Issue {
            request: REQUEST,
            usages: &[],
            from: Time::parse("2026-01-01T00:00:00Z").unwrap(),
            to: Time::parse("2300-01-01T00:00:00Z").unwrap(),
            serial: [1; 16],
            authority: AUTHORITY,
        };
        let end = |text: &str| {
            let bytes = block(text, "CERTIFICATE").unwrap();
            Certificate::read(&bytes).unwrap().not_after
        };
        let text = issue.certificate(|_| Ok(vec![1])).unwrap();
        assert_eq!(end(&text), end(AUTHORITY));
    }

    #[test]
    fn what_is_no_request_gets_no_certificate() {
        let issue = Issue {
            request: AUTHORITY,
            usages: &[],
            from: Time::parse("2026-01-01T00:00:00Z").unwrap(),
            to: Time::parse("2027-01-01T00:00:00Z").unwrap(),
            serial: [0; 16],
            authority: AUTHORITY,
        };
        assert!(issue.certificate(|_| Ok(Vec::new())).is_err());
        let failing = Issue {
            request: REQUEST,
            ..issue
        };
        assert_eq!(
            failing.certificate(|_| Err("no key".to_owned())),
            Err("no key".to_owned())
        );
    }
}
