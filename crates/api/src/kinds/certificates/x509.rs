//! Certificates, and requests for them: what the rules look at.
//!
//! Reading verifies nothing; `signature` does, for requests.

use super::der::{
    self, BIT_STRING, BOOLEAN, Element, GENERALIZED_TIME, INTEGER, OBJECT, OCTET_STRING, Reader, SEQUENCE,
    SET, UTC_TIME, part,
};
use crate::time::Time;

/// A certificate.
#[derive(Debug, Default)]
pub(super) struct Certificate<'d> {
    /// When it begins to be valid.
    pub(super) not_before: Option<Time>,
    /// When it ends to be valid.
    pub(super) not_after: Option<Time>,
    /// The key it is about, with its algorithm.
    pub(super) public_key: &'d [u8],
    /// Whether its key may sign other certificates.
    pub(super) is_authority: bool,
    /// Names of hosts it is about.
    pub(super) hosts: Vec<String>,
    /// Addresses of mail it is about.
    pub(super) mails: Vec<String>,
}

/// A request for a certificate.
#[derive(Debug)]
pub(super) struct Request<'d> {
    /// Whom it is for.
    pub(super) subject: &'d [u8],
    /// What else is asked for.
    attributes: &'d [u8],
    /// The key to be certified, with its algorithm.
    pub(super) public_key: &'d [u8],
    /// The key alone.
    pub(super) key_bits: &'d [u8],
    /// What is signed.
    pub(super) signed: &'d [u8],
    /// How: a name, and what goes with it.
    pub(super) algorithm: &'d [u8],
    /// The signature.
    pub(super) signature: &'d [u8],
}

/// What sort of key there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Key {
    Ed25519,
    /// On the curve of this name.
    Elliptic(&'static str),
    /// With a modulus of so many bits.
    Rsa(usize),
    Unknown,
}

pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
pub(super) const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const EXTENSIONS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const CURVES: [(&[u8], &str); 4] = [
    (&[0x2b, 0x81, 0x04, 0x00, 0x21], "P-224"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], "P-256"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "P-384"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x23], "P-521"),
];

/// The tags of names of mail and of hosts among alternative names.
const MAIL: u8 = 0x81;
const HOST: u8 = 0x82;

type Fault = &'static str;

// --- Certificate ---

impl<'d> Certificate<'d> {
    /// Reads a certificate that fills all the bytes.
    pub(super) fn read(bytes: &'d [u8]) -> Result<Self, Fault> {
        let mut outside = Reader::new(bytes);
        let (certificate, rest) = Self::read_first(&mut outside)?;
        if rest.is_empty() {
            Ok(certificate)
        } else {
            Err("x509: trailing data")
        }
    }

    /// Reads certificates, one after the other.
    pub(super) fn read_all(bytes: &'d [u8]) -> Result<Vec<Self>, Fault> {
        let mut all = Vec::new();
        let mut outside = Reader::new(bytes);
        while !outside.is_empty() {
            all.push(Self::read_first(&mut outside)?.0);
        }
        Ok(all)
    }

    fn read_first<'r>(outside: &'r mut Reader<'d>) -> Result<(Self, &'r Reader<'d>), Fault> {
        let mut signed = outside.enter(SEQUENCE).ok_or("x509: malformed certificate")?;
        let mut inner = signed.enter(SEQUENCE).ok_or("x509: malformed tbs certificate")?;
        let certificate = Self::read_inner(&mut inner, &mut signed)?;
        signed.next(BIT_STRING).ok_or("x509: malformed signature")?;
        Ok((certificate, outside))
    }

    fn read_inner(inner: &mut Reader<'d>, signed: &mut Reader<'d>) -> Result<Self, Fault> {
        let mut version = 0;
        if let Some(element) = inner.optional(part(0)) {
            let number = Reader::new(element.content).next(INTEGER);
            version = match number.ok_or("x509: malformed version")?.content {
                [number @ 0..=2] => *number,
                _ => return Err("x509: invalid version"),
            };
        }
        let serial = inner.next(INTEGER).ok_or("x509: malformed serial number")?;
        if serial.content.first().is_some_and(|byte| byte & 0x80 != 0) {
            return Err("x509: negative serial number");
        }
        let algorithm = inner
            .next(SEQUENCE)
            .ok_or("x509: malformed signature algorithm identifier")?;
        let outer = signed
            .next(SEQUENCE)
            .ok_or("x509: malformed algorithm identifier")?;
        if algorithm.whole != outer.whole {
            return Err("x509: inner and outer signature algorithm identifiers don't match");
        }
        inner.next(SEQUENCE).ok_or("x509: malformed issuer")?;
        let mut validity = inner.enter(SEQUENCE).ok_or("x509: malformed validity")?;
        let not_before = Some(read_time(&mut validity)?);
        let not_after = Some(read_time(&mut validity)?);
        inner.next(SEQUENCE).ok_or("x509: malformed issuer")?;
        let public_key = inner.next(SEQUENCE).ok_or("x509: malformed spki")?.whole;
        Key::read(public_key)?;
        let mut certificate = Certificate {
            not_before,
            not_after,
            public_key,
            ..Certificate::default()
        };
        // Two numbers that tell namesakes apart, of old.
        inner.optional(0x81);
        inner.optional(0x82);
        if version == 2 {
            certificate.read_extensions(inner)?;
        }
        Ok(certificate)
    }

    fn read_extensions(&mut self, inner: &mut Reader<'d>) -> Result<(), Fault> {
        let Some(outside) = inner.optional(part(3)) else {
            return Ok(());
        };
        let mut list = Reader::new(outside.content)
            .enter(SEQUENCE)
            .ok_or("x509: malformed extensions")?;
        let mut seen = Vec::new();
        while !list.is_empty() {
            let (name, value) = read_extension(&mut list).ok_or("x509: malformed extension")?;
            if seen.contains(&name) {
                return Err("x509: certificate contains duplicate extensions");
            }
            seen.push(name);
            match name {
                BASIC_CONSTRAINTS => {
                    self.is_authority = read_constraints(value).ok_or("x509: invalid basic constraints")?;
                }
                ALTERNATIVE_NAMES => self
                    .read_names(value)
                    .ok_or("x509: invalid subject alternative names")?,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_names(&mut self, value: &[u8]) -> Option<()> {
        let mut names = Reader::new(value).enter(SEQUENCE)?;
        while !names.is_empty() {
            let Element { tag, content, .. } = names.any()?;
            let into = match tag {
                MAIL => &mut self.mails,
                HOST => &mut self.hosts,
                _ => continue,
            };
            let text = str::from_utf8(content).ok().filter(|text| text.is_ascii())?;
            into.push(text.to_owned());
        }
        Some(())
    }
}

/// The name and the value of the next extension.
pub(super) fn read_extension<'d>(list: &mut Reader<'d>) -> Option<(&'d [u8], &'d [u8])> {
    let mut extension = list.enter(SEQUENCE)?;
    let name = extension.next(OBJECT)?.content;
    extension.optional(BOOLEAN);
    Some((name, extension.next(OCTET_STRING)?.content))
}

fn read_constraints(value: &[u8]) -> Option<bool> {
    let mut constraints = Reader::new(value).enter(SEQUENCE)?;
    let authority = match constraints.optional(BOOLEAN).map(|flag| flag.content) {
        None | Some([0]) => false,
        Some([0xff]) => true,
        Some(_) => return None,
    };
    constraints.optional(INTEGER);
    Some(authority)
}

fn read_time(validity: &mut Reader<'_>) -> Result<Time, Fault> {
    let element = validity.any().ok_or("x509: malformed validity")?;
    let text = str::from_utf8(element.content).unwrap_or_default();
    let (digits, fault) = match element.tag {
        UTC_TIME => (12, "x509: malformed UTCTime"),
        GENERALIZED_TIME => (14, "x509: malformed GeneralizedTime"),
        _ => return Err("x509: unsupported time format"),
    };
    let plain = text
        .strip_suffix('Z')
        .filter(|text| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit()))
        .ok_or(fault)?;
    let (year, rest) = plain.split_at(digits - 10);
    // Two digits mean a year from 1950 to 2049.
    let century = match year.len() {
        2 if year < "50" => "20",
        2 => "19",
        _ => "",
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| &rest[at..at + 2]);
    let text = format!("{century}{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    Time::parse(&text).map_err(|_| fault)
}

// --- Request ---

impl<'d> Request<'d> {
    /// Reads a request that fills all the bytes.
    pub(super) fn read(bytes: &'d [u8]) -> Result<Self, String> {
        let mut outside = Reader::new(bytes);
        let mut signed = enter(&mut outside, "certificateRequest")?;
        if !outside.is_empty() {
            return Err("asn1: syntax error: trailing data".to_owned());
        }
        let before = signed;
        let mut inner = enter(&mut signed, "tbsCertificateRequest")?;
        let mut read = || {
            inner.next(INTEGER)?;
            let subject = inner.next(SEQUENCE)?.content;
            let key = inner.next(SEQUENCE)?;
            let attributes = inner.next(part(0))?.content;
            let mut parts = Reader::new(key.content);
            parts.next(SEQUENCE)?;
            Some(Request {
                subject,
                attributes,
                public_key: key.whole,
                key_bits: whole_bytes(&mut parts)?,
                signed: { before }.any()?.whole,
                algorithm: signed.next(SEQUENCE)?.content,
                signature: whole_bytes(&mut signed)?,
            })
        };
        let request = read().ok_or("asn1: syntax error: sequence truncated")?;
        Key::read(request.public_key)?;
        Ok(request)
    }

    /// The organizations of whom it is for.
    pub(super) fn organizations(&self) -> Vec<String> {
        self.subject_names(ORGANIZATION)
    }

    /// The common name of whom it is for: the last one, if there are several.
    pub(super) fn common_name(&self) -> String {
        self.subject_names(COMMON_NAME).pop().unwrap_or_default()
    }

    /// The names that the certificate is to have beside its subject, each with its tag (1 for mail, 2 for hosts, 6 for
    /// resources, 7 for addresses) and what it says.
    pub(super) fn alternative_names(&self) -> Vec<(u8, &'d [u8])> {
        let mut found = Vec::new();
        let names = self.extension(ALTERNATIVE_NAMES).unwrap_or_default();
        let mut names = Reader::new(names)
            .enter(SEQUENCE)
            .unwrap_or_else(|| Reader::new(&[]));
        while let Some(element) = names.any() {
            found.push((element.tag & 0x1f, element.content));
        }
        found
    }

    /// The value of an extension that is asked for.
    pub(super) fn extension(&self, wanted: &[u8]) -> Option<&'d [u8]> {
        let mut attributes = Reader::new(self.attributes);
        while let Some(mut attribute) = attributes.enter(SEQUENCE) {
            let name = attribute.next(OBJECT);
            if name.is_none_or(|name| name.content != EXTENSIONS) {
                continue;
            }
            let list = attribute.enter(SET).and_then(|mut set| set.enter(SEQUENCE));
            let mut list = list.unwrap_or_else(|| Reader::new(&[]));
            while let Some((name, value)) = read_extension(&mut list) {
                if name == wanted {
                    return Some(value);
                }
            }
        }
        None
    }

    fn subject_names(&self, wanted: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let mut subject = Reader::new(self.subject);
        while let Some(mut set) = subject.enter(SET) {
            while let Some(mut attribute) = set.enter(SEQUENCE) {
                let name = attribute.next(OBJECT);
                if let (Some(name), Some(value)) = (name, attribute.any())
                    && name.content == wanted
                {
                    found.push(text(value.tag, value.content));
                }
            }
        }
        found
    }
}

/// A text, whatever its letters are made of.
fn text(tag: u8, bytes: &[u8]) -> String {
    const WIDE: u8 = 0x1e;
    if tag != WIDE {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (letters, _) = bytes.as_chunks::<2>();
    let letters: Vec<_> = letters.iter().copied().map(u16::from_be_bytes).collect();
    String::from_utf16_lossy(&letters)
}

/// Bits that are a whole number of bytes.
fn whole_bytes<'d>(reader: &mut Reader<'d>) -> Option<&'d [u8]> {
    match reader.next(BIT_STRING)?.content {
        [0, bytes @ ..] => Some(bytes),
        _ => None,
    }
}

/// Enters a sequence, or tells what stands there instead, in the words of the reader that clients know.
fn enter<'d>(reader: &mut Reader<'d>, name: &str) -> Result<Reader<'d>, String> {
    if reader.is_empty() {
        return Err("asn1: syntax error: sequence truncated".to_owned());
    }
    let element = reader.any().ok_or("asn1: syntax error: data truncated")?;
    if element.tag == SEQUENCE {
        return Ok(Reader::new(element.content));
    }
    Err(format!(
        "asn1: structure error: tags don't match (16 vs {{class:{} tag:{} length:{} isCompound:{}}}) {{optional:false \
         explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false \
         omitEmpty:false}} {name} @{}",
        element.tag >> 6,
        element.tag & 0x1f,
        element.content.len(),
        element.tag & 0x20 != 0,
        element.whole.len() - element.content.len(),
    ))
}

// --- Key ---

impl Key {
    /// What sort of key stands in these bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let mut key = Reader::new(bytes).enter(SEQUENCE).ok_or("x509: malformed spki")?;
        let mut algorithm = key
            .enter(SEQUENCE)
            .ok_or("x509: malformed public key algorithm identifier")?;
        let name = algorithm.next(OBJECT);
        let bits = key.next(BIT_STRING).map(|bits| bits.content);
        let (Some(name), Some([0, bits @ ..])) = (name, bits) else {
            return Err("x509: malformed subjectPublicKey");
        };
        match name.content {
            ED25519 if bits.len() != 32 => Err("x509: wrong Ed25519 public key size"),
            ED25519 => Ok(Key::Ed25519),
            ELLIPTIC => {
                let curve = algorithm.next(OBJECT).ok_or("x509: invalid ECDSA parameters")?;
                let known = CURVES.iter().find(|(name, _)| *name == curve.content);
                let (_, curve) = known.ok_or("x509: unsupported elliptic curve")?;
                Ok(Key::Elliptic(curve))
            }
            RSA => {
                let modulus = rsa_modulus(bits).ok_or("x509: invalid RSA modulus")?;
                let digits = modulus.iter().skip_while(|byte| **byte == 0).count();
                Ok(Key::Rsa(digits * 8))
            }
            _ => Ok(Key::Unknown),
        }
    }
}

fn rsa_modulus(bits: &[u8]) -> Option<&[u8]> {
    let mut numbers = Reader::new(bits).enter(der::SEQUENCE)?;
    let modulus = numbers.next(INTEGER)?.content;
    numbers.next(INTEGER)?;
    Some(modulus)
}

#[cfg(test)]
mod tests {
    use super::{super::samples, *};

    #[test]
    fn a_certificate_of_an_authority_is_read() {
        let bytes = samples::authority();
        let certificate = Certificate::read(&bytes).unwrap();
        assert!(certificate.is_authority);
        assert_eq!(
            certificate.not_before.unwrap().to_string(),
            "2026-11-15T21:02:51Z"
        );
        assert_eq!(certificate.not_after.unwrap().to_string(), "2126-10-22T21:02:51Z");
        assert_eq!(Key::read(certificate.public_key), Ok(Key::Rsa(2048)));
        let twice = [bytes.clone(), bytes.clone()].concat();
        assert_eq!(Certificate::read(&twice).unwrap_err(), "x509: trailing data");
        assert_eq!(Certificate::read_all(&twice).unwrap().len(), 2);
    }

    #[test]
    fn a_request_is_read() {
        let bytes = samples::request();
        let request = Request::read(&bytes).unwrap();
        assert_eq!(Key::read(request.public_key), Ok(Key::Rsa(2048)));
    }

    #[test]
    fn a_request_may_ask_for_more_names() {
        let names = |text: &str| {
            let bytes = samples::bytes(text);
            let names = Request::read(&bytes).unwrap().alternative_names();
            names.into_iter().map(|(tag, _)| tag).collect::<Vec<_>>()
        };
        assert!(names(samples::REQUEST).is_empty());
        assert_eq!(names(samples::NAMED), [2, 7, 1, 6]);
    }

    #[test]
    fn what_is_cut_anywhere_is_refused() {
        let (authority, request) = (samples::authority(), samples::request());
        for end in 0..authority.len() {
            assert!(Certificate::read(&authority[..end]).is_err());
        }
        for end in 0..request.len() {
            assert!(Request::read(&request[..end]).is_err());
        }
    }

    #[test]
    fn another_tag_is_told_as_clients_know_it() {
        assert_eq!(
            Request::read(&[INTEGER, 1, 5]).unwrap_err(),
            "asn1: structure error: tags don't match (16 vs {class:0 tag:2 length:1 isCompound:false}) {optional:false \
             explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 \
             set:false omitEmpty:false} certificateRequest @2"
        );
    }
}
