//! Certificates: X.509.
//!
//! Reading verifies nothing but the form; whether a certificate is trusted is for TLS to find out.

use std::collections::BTreeSet;

use der::{
    Decode, Encode, SliceReader,
    asn1::{AnyRef, ObjectIdentifier},
};
use x509_cert::{
    ext::{
        Extension,
        pkix::{BasicConstraints, SubjectKeyIdentifier},
    },
    time::Time,
};

use crate::{
    AlternativeNames, Identity, ParseError, PublicKey, Subject,
    encoding::{SignedCertificate, check_number, decode},
    pem_block,
};

/// A certificate, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whom it is for.
    pub subject: Subject,
    /// The Kubernetes user and groups of the subject.
    pub identity: Identity,
    /// The names it is for besides the subject.
    pub names: AlternativeNames,
    /// When it begins to be valid, in seconds since 1970.
    pub not_before: i64,
    /// When it ends to be valid, in seconds since 1970.
    pub not_after: i64,
    /// Whether its key may sign other certificates.
    pub is_authority: bool,
    /// The key it is about.
    pub public_key: PublicKey,
    /// The identifier of its key, if it has one.
    pub(crate) key_id: Option<Vec<u8>>,
}

pub(crate) const SUBJECT_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");
pub(crate) const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
pub(crate) const SUBJECT_ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
pub(crate) const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
pub(crate) const AUTHORITY_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.35");
pub(crate) const EXTENDED_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
/// Version 3, as it is written.
pub(crate) const VERSION_3: u8 = 2;

// --- Certificate ---

impl Certificate {
    /// Reads the first certificate of a text.
    pub fn from_pem(text: &[u8]) -> Result<Self, ParseError> {
        let first = pem_block::read_certificates(text).ok();
        let first = first.and_then(|read| read.into_iter().next());
        let first = first.ok_or(ParseError::Field("no PEM block CERTIFICATE"))?;
        Self::from_der(&first)
    }

    /// Reads a certificate that fills all the bytes.
    pub fn from_der(bytes: &[u8]) -> Result<Self, ParseError> {
        let SignedCertificate { info, algorithm, .. } = decode(bytes)?;
        if info.version > VERSION_3 {
            return Err(ParseError::Field("invalid version"));
        }
        if info
            .serial_number
            .as_bytes()
            .first()
            .is_none_or(|first| first & 0x80 != 0)
        {
            return Err(ParseError::Field("negative serial number"));
        }
        if info.algorithm != algorithm {
            return Err(ParseError::Field(
                "inner and outer signature algorithm identifiers don't match",
            ));
        }
        let subject = Subject::read(&info.subject)?;
        let mut certificate = Certificate {
            identity: subject.identity(),
            subject,
            names: AlternativeNames::default(),
            not_before: seconds(info.validity.not_before),
            not_after: seconds(info.validity.not_after),
            is_authority: false,
            public_key: PublicKey::read(&info.public_key)?,
            key_id: None,
        };
        let extensions = info.extensions.unwrap_or_default();
        if !extensions.is_empty() && info.version != VERSION_3 {
            return Err(ParseError::Field("extensions in a certificate of an old version"));
        }
        certificate.read_extensions(&extensions)?;
        Ok(certificate)
    }

    /// Reads certificates one after the other, as some programs put several into one PEM block.
    pub fn list_from_der(bytes: &[u8]) -> Result<Vec<Self>, ParseError> {
        let mut all = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (first, after) = split_value(rest)?;
            all.push(Self::from_der(first)?);
            rest = after;
        }
        Ok(all)
    }

    fn read_extensions(&mut self, extensions: &[Extension]) -> Result<(), ParseError> {
        let mut seen = BTreeSet::new();
        for extension in extensions {
            let oid = extension.extn_id;
            check_number(&oid)?;
            if !seen.insert(oid) {
                return Err(ParseError::Duplicate(format!("extension {oid}")));
            }
            let value = extension.extn_value.as_bytes();
            match oid {
                SUBJECT_ALTERNATIVE_NAMES => self.names = AlternativeNames::read(value)?,
                BASIC_CONSTRAINTS => self.is_authority = decode::<BasicConstraints>(value)?.ca,
                SUBJECT_KEY_ID => {
                    let SubjectKeyIdentifier(id) = decode(value)?;
                    self.key_id = Some(id.as_bytes().to_vec());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The first value of several, and the bytes after it.
fn split_value(bytes: &[u8]) -> Result<(&[u8], &[u8]), ParseError> {
    let mut reader = SliceReader::new(bytes)?;
    let value = AnyRef::decode(&mut reader)?;
    let length = usize::try_from(value.encoded_len()?)?;
    bytes
        .split_at_checked(length)
        .ok_or(ParseError::Field("truncated certificate"))
}

fn seconds(time: Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}
