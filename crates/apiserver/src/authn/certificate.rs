//! What this project wants to know of an X.509 certificate: whose it is, for which names and how long.
//!
//! Promises: any bytes are read without a panic; nothing is verified here, that is for TLS to do.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str,
};

use k3_api::time::Time;

use super::der::{BadDer, Der, INTEGER, OBJECT, SEQUENCE};

/// A certificate, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name; the last one where there are several, empty where there is none.
    pub common_name: String,
    /// The subject's organizations.
    pub organizations: Vec<String>,
    /// The uids of the subject, under the number that Kubernetes has for them.
    pub uids: Vec<String>,
    /// The DNS names and addresses that it is for.
    pub names: Vec<String>,
    /// When it begins to hold, in seconds since 1970.
    pub not_before: i64,
    /// When it ceases to hold, in seconds since 1970.
    pub not_after: i64,
}

/// The bytes are not a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate: {0}")]
pub struct BadCertificate(&'static str);

const OCTETS: u8 = 0x04;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// 1.3.6.1.4.1.57683.2
const UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
const DNS_NAME: u8 = 0x82;
const ADDRESS: u8 = 0x87;

// --- Certificate ---

impl From<BadDer> for BadCertificate {
    fn from(BadDer(problem): BadDer) -> Self {
        BadCertificate(problem)
    }
}

impl Certificate {
    /// Reads a certificate in DER form.
    pub fn read(der: &[u8]) -> Result<Self, BadCertificate> {
        let mut outer = Der(der).expect(SEQUENCE, "it is no sequence")?;
        let mut body = outer.expect(SEQUENCE, "it has no body")?;
        body.skip(VERSION);
        body.expect(INTEGER, "it has no serial number")?;
        body.expect(SEQUENCE, "it has no algorithm")?;
        body.expect(SEQUENCE, "it has no issuer")?;
        let mut validity = body.expect(SEQUENCE, "it has no validity")?;
        let subject = body.expect(SEQUENCE, "it has no subject")?;
        body.expect(SEQUENCE, "it has no public key")?;
        let mut certificate = Self {
            not_before: next_date(&mut validity)?,
            not_after: next_date(&mut validity)?,
            ..Self::default()
        };
        certificate.read_subject(subject)?;
        while let Some((tag, content)) = body.next()? {
            if tag == EXTENSIONS {
                let extensions = Der(content).expect(SEQUENCE, "its extensions are no list")?;
                certificate.read_extensions(extensions)?;
            }
        }
        Ok(certificate)
    }

    fn read_subject(&mut self, mut subject: Der<'_>) -> Result<(), BadCertificate> {
        while !subject.0.is_empty() {
            let mut set = subject.expect(SET, "its subject is no list of sets")?;
            while !set.0.is_empty() {
                let mut attribute = set.expect(SEQUENCE, "its subject has an odd part")?;
                let name = attribute.expect(OBJECT, "a part of its subject has no name")?.0;
                let value = attribute.next()?.and_then(|(tag, bytes)| text(tag, bytes));
                let wanted = || value.ok_or(BadCertificate("a part of its subject is no text"));
                match name {
                    COMMON_NAME => self.common_name = wanted()?,
                    ORGANIZATION => self.organizations.push(wanted()?),
                    UID => self.uids.push(wanted()?),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn read_extensions(&mut self, mut extensions: Der<'_>) -> Result<(), BadCertificate> {
        while !extensions.0.is_empty() {
            let mut extension = extensions.expect(SEQUENCE, "an extension is odd")?;
            let id = extension.expect(OBJECT, "an extension has no name")?.0;
            if id != ALTERNATIVE_NAMES {
                continue;
            }
            while let Some((tag, content)) = extension.next()? {
                if tag == OCTETS {
                    let names = Der(content).expect(SEQUENCE, "its names are no list")?;
                    self.read_names(names)?;
                }
            }
        }
        Ok(())
    }

    fn read_names(&mut self, mut names: Der<'_>) -> Result<(), BadCertificate> {
        while let Some((tag, content)) = names.next()? {
            match tag {
                DNS_NAME => {
                    let name = str::from_utf8(content).map_err(|_| BadCertificate("a name is no text"))?;
                    self.names.push(name.to_owned());
                }
                ADDRESS => {
                    let address = address(content).ok_or(BadCertificate("an address has an odd length"))?;
                    self.names.push(address.to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The text of a value of one of the string types.
fn text(tag: u8, bytes: &[u8]) -> Option<String> {
    const UTF8: u8 = 0x0c;
    const NUMERIC: u8 = 0x12;
    const PRINTABLE: u8 = 0x13;
    const TELETEX: u8 = 0x14;
    const IA5: u8 = 0x16;
    const BMP: u8 = 0x1e;
    match tag {
        UTF8 | NUMERIC | PRINTABLE | TELETEX | IA5 => str::from_utf8(bytes).ok().map(str::to_owned),
        BMP => {
            let (units, rest) = bytes.as_chunks::<2>();
            let units: Vec<u16> = units.iter().copied().map(u16::from_be_bytes).collect();
            rest.is_empty().then(|| String::from_utf16(&units).ok()).flatten()
        }
        _ => None,
    }
}

/// The next value, which must be a date.
fn next_date(values: &mut Der<'_>) -> Result<i64, BadCertificate> {
    values
        .next()?
        .and_then(|(tag, bytes)| date(tag, bytes))
        .ok_or(BadCertificate("a date is odd"))
}

/// The seconds since 1970 of a value of one of the date types, in the one form that certificates allow.
fn date(tag: u8, bytes: &[u8]) -> Option<i64> {
    const SHORT: u8 = 0x17;
    const LONG: u8 = 0x18;
    let digits = str::from_utf8(bytes).ok()?.strip_suffix('Z')?;
    let full = match tag {
        // Two digits of a year are of this century up to 49.
        SHORT if digits < "50" => format!("20{digits}"),
        SHORT => format!("19{digits}"),
        LONG => digits.to_owned(),
        _ => return None,
    };
    if full.len() != 14 || !full.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| &full[from..to];
    let (day, time) = (
        [part(0, 4), part(4, 6), part(6, 8)],
        [part(8, 10), part(10, 12), part(12, 14)],
    );
    let text = format!("{}T{}Z", day.join("-"), time.join(":"));
    Time::parse(&text).ok().map(Time::unix_seconds)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    let sixteen = <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)));
    four.or(sixteen).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    /// A certificate made by another program's rules.
    pub(in super::super) fn made(names: &[&str], subject: &[(DnType, DnValue)]) -> Vec<u8> {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_subject_and_the_names_are_read() {
        let der = made(
            &["localhost", "10.96.0.1", "::1"],
            &[
                (DnType::CommonName, "alice".into()),
                (DnType::OrganizationName, "devs".into()),
                (DnType::CountryName, "CH".into()),
            ],
        );
        let certificate = Certificate::read(&der).unwrap();
        assert_eq!(certificate.common_name, "alice");
        assert_eq!(certificate.organizations, ["devs"]);
        assert_eq!(certificate.names, ["localhost", "10.96.0.1", "::1"]);
    }

    #[test]
    fn a_long_subject_in_another_alphabet_is_read() {
        let long = "\u{e9}".repeat(300);
        let der = made(
            &[],
            &[(
                DnType::CommonName,
                DnValue::BmpString(long.as_str().try_into().unwrap()),
            )],
        );
        assert_eq!(Certificate::read(&der).unwrap().common_name, long);
    }

    #[test]
    fn both_forms_of_dates_are_read() {
        assert_eq!(date(0x17, b"700101000001Z"), Some(1));
        assert_eq!(date(0x17, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(date(0x18, b"20500101000000Z"), Some(2_524_608_000));
        for odd in [
            "20500101000000",
            "2050010100Z",
            "20501301000000Z",
            "+0500101000000Z",
        ] {
            assert_eq!(date(0x18, odd.as_bytes()), None, "{odd}");
        }
        let certificate = Certificate::read(&made(&[], &[])).unwrap();
        // What its maker writes when it is not told.
        assert_eq!(certificate.not_before, 157_766_400);
        assert_eq!(certificate.not_after, 67_090_118_400);
    }

    #[test]
    fn bytes_cut_off_or_changed_are_refused_or_read_without_a_panic() {
        let der = made(&["a", "::1"], &[(DnType::CommonName, "alice".into())]);
        for length in 0..der.len() {
            assert!(Certificate::read(&der[..length]).is_err(), "{length}");
        }
        for position in 0..der.len() {
            for value in [0, 0x7f, 0x80, 0x83, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[position] = value;
                let _ = Certificate::read(&changed);
            }
        }
    }
}
