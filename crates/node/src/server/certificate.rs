//! The name in a client's certificate, which was verified when it was shown.
//!
//! Promise: any bytes are read without a panic.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const VERSION: u8 = 0xa0;
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];
const ORGANIZATION: [u8; 3] = [0x55, 4, 10];

/// Whom a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    /// The user.
    pub common_name: String,
    /// The groups.
    pub organizations: Vec<String>,
}

/// Reads whom a certificate is for; `None` if it makes no sense, or is for nobody.
pub(super) fn subject(certificate: &[u8]) -> Option<Subject> {
    let (mut whole, _) = value(certificate, SEQUENCE)?;
    let mut body = take(&mut whole, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        take(&mut body, VERSION)?;
    }
    // Its number, how it is signed, by whom, and from when to when.
    for _ in 0..4 {
        let tag = *body.first()?;
        take(&mut body, tag)?;
    }
    let mut name = take(&mut body, SEQUENCE)?;
    let mut subject = Subject::default();
    while !name.is_empty() {
        let mut set = take(&mut name, SET)?;
        while !set.is_empty() {
            let mut pair = take(&mut set, SEQUENCE)?;
            let sort = take(&mut pair, OBJECT)?;
            let tag = *pair.first()?;
            let text = String::from_utf8(take(&mut pair, tag)?.to_vec()).ok()?;
            if sort == COMMON_NAME {
                subject.common_name = text;
            } else if sort == ORGANIZATION {
                subject.organizations.push(text);
            }
        }
    }
    (!subject.common_name.is_empty()).then_some(subject)
}

/// Takes the next value, which must have this tag.
fn take<'d>(from: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    let (content, rest) = value(from, tag)?;
    *from = rest;
    Some(content)
}

fn value(from: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = from.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(first) {
        short @ 0..=0x7f => (short, rest),
        // Three bytes of length are sixteen megabytes; no certificate is longer.
        long @ 0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(long - 0x80)?;
            let length = length.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (sort, name) in names {
            params.distinguished_name.push(sort.clone(), *name);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_names_a_user_and_groups() {
        let bytes = certificate(&[
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "admin"),
        ]);
        assert_eq!(
            subject(&bytes),
            Some(Subject {
                common_name: "admin".to_owned(),
                organizations: vec!["system:masters".to_owned()],
            })
        );
        assert_eq!(subject(&certificate(&[(DnType::OrganizationName, "x")])), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let bytes = certificate(&[(DnType::CommonName, "admin")]);
        for cut in 0..bytes.len() {
            assert_eq!(subject(&bytes[..cut]), None);
        }
        for at in 0..bytes.len().min(120) {
            for change in [1, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                let _ = subject(&bytes);
            }
        }
    }
}
