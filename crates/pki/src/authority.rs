//! Authorities, and the certificates that they issue: encoded from values, of which the subject is one.

use der::{
    Encode,
    asn1::{BitString, Int, ObjectIdentifier, OctetString},
};
use ring::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;
use x509_cert::{
    ext::{
        Extension,
        pkix::{AuthorityKeyIdentifier, BasicConstraints, SubjectKeyIdentifier},
    },
    time::Time,
};

use crate::{
    AlternativeName, Certificate, IssueError, KeyPair, ParseError, PublicKey, Subject,
    alternative_names::encode_names,
    certificate::{
        AUTHORITY_KEY_ID, BASIC_CONSTRAINTS, EXTENDED_KEY_USAGE, KEY_USAGE, SUBJECT_ALTERNATIVE_NAMES,
        SUBJECT_KEY_ID, VERSION_3,
    },
    encoding::{CertificateInfo, SignedCertificate, Validity, decode},
    key_usage::{encode_key_usage, encode_purposes},
    pem_block::{certificate_to_pem, read_certificates},
};

/// An authority: a key that signs, and the certificate of that key.
#[derive(Debug)]
pub struct Authority {
    key: KeyPair,
    certificate: Certificate,
    der: CertificateDer<'static>,
}

/// The content of a new certificate.
#[derive(Clone, Copy, Debug)]
pub struct Template<'t> {
    /// Whom it is for.
    pub subject: &'t Subject,
    /// The names it is for besides the subject.
    pub names: &'t [AlternativeName],
    /// The key usages, as in the API.
    pub usages: &'t [&'t str],
    /// When it begins to be valid, in seconds since 1970.
    pub not_before: i64,
    /// End of the validity, limited by that of the authority.
    pub not_after: i64,
    /// Random bytes for the serial number.
    pub serial: [u8; 16],
}

/// The issuer: an authority, or the key itself (self-signed).
struct Issuer<'i> {
    subject: &'i Subject,
    key: &'i KeyPair,
    /// The identifier of the key, for certificates that others issue.
    key_id: Option<&'i [u8]>,
    /// Whether the certificate is the issuer's own, as one that may sign others.
    is_own: bool,
}

// --- Authority ---

impl Authority {
    /// An authority with a new certificate, signed by itself.
    pub fn self_signed(key: KeyPair, template: &Template<'_>) -> Result<Self, IssueError> {
        let issuer = Issuer {
            subject: template.subject,
            key: &key,
            key_id: None,
            is_own: true,
        };
        let public_key = key.public_key().map_err(IssueError::Authority)?;
        let der = encode(template, &public_key, &issuer)?;
        Ok(Authority {
            certificate: Certificate::from_der(&der).map_err(IssueError::Authority)?,
            key,
            der,
        })
    }

    /// An authority with the certificate that it has.
    pub fn from_pem(certificate: &str, key: KeyPair) -> Result<Self, IssueError> {
        let unusable = |_| IssueError::Authority(ParseError::Field("no PEM block CERTIFICATE"));
        let der = read_certificates(certificate.as_bytes())
            .map_err(unusable)?
            .swap_remove(0);
        let certificate = Certificate::from_der(&der).map_err(IssueError::Authority)?;
        let public_key = key.public_key().map_err(IssueError::Authority)?;
        if certificate.public_key != public_key {
            return Err(IssueError::AuthorityKey);
        }
        Ok(Authority {
            key,
            certificate,
            der,
        })
    }

    /// A certificate for a key, in PEM.
    pub fn issue(&self, template: &Template<'_>, key: &PublicKey) -> Result<String, IssueError> {
        // A certificate must not outlive the certificate of its issuer.
        let template = Template {
            not_after: template.not_after.min(self.certificate.not_after),
            ..*template
        };
        let issuer = Issuer {
            subject: &self.certificate.subject,
            key: &self.key,
            key_id: self.certificate.key_id.as_deref(),
            is_own: false,
        };
        Ok(certificate_to_pem(&encode(&template, key, &issuer)?))
    }

    /// Its key, for another certificate.
    pub fn into_key(self) -> KeyPair {
        self.key
    }

    /// Its certificate, read.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its certificate in DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Its certificate in PEM.
    pub fn to_pem(&self) -> String {
        certificate_to_pem(&self.der)
    }
}

/// A certificate for a key that is signed by that key, in PEM.
pub fn self_signed_certificate(key: &KeyPair, template: &Template<'_>) -> Result<String, IssueError> {
    let issuer = Issuer {
        subject: template.subject,
        key,
        key_id: None,
        is_own: false,
    };
    let public_key = key.public_key().map_err(IssueError::Authority)?;
    Ok(certificate_to_pem(&encode(template, &public_key, &issuer)?))
}

fn encode(
    template: &Template<'_>,
    key: &PublicKey,
    issuer: &Issuer<'_>,
) -> Result<CertificateDer<'static>, IssueError> {
    // The first bit would make it negative; the second one keeps its length.
    let mut serial = template.serial;
    serial[0] = serial[0] & 0x7f | 0x40;
    let algorithm = issuer.key.algorithm()?;
    let info = CertificateInfo {
        version: VERSION_3,
        serial_number: Int::new(&serial)?,
        algorithm: algorithm.clone(),
        issuer: issuer.subject.to_name()?,
        validity: Validity {
            not_before: time(template.not_before)?,
            not_after: time(template.not_after)?,
        },
        subject: template.subject.to_name()?,
        public_key: decode(key.info()).map_err(IssueError::Authority)?,
        issuer_id: None,
        subject_id: None,
        extensions: Some(extensions(template, key, issuer)?),
    };
    let signature = issuer.key.sign(&info.to_der()?)?;
    let certificate = SignedCertificate {
        info,
        algorithm,
        signature: BitString::from_bytes(&signature)?,
    };
    Ok(CertificateDer::from(certificate.to_der()?))
}

fn extensions(
    template: &Template<'_>,
    key: &PublicKey,
    issuer: &Issuer<'_>,
) -> Result<Vec<Extension>, IssueError> {
    let mut all = Vec::new();
    if let Some(value) = encode_key_usage(template.usages)? {
        all.push(extension(KEY_USAGE, Criticality::Critical, value)?);
    }
    if let Some(value) = encode_purposes(template.usages)? {
        all.push(extension(EXTENDED_KEY_USAGE, Criticality::NotCritical, value)?);
    }
    let constraints = BasicConstraints {
        ca: issuer.is_own,
        path_len_constraint: issuer.is_own.then_some(0),
    };
    all.push(extension(
        BASIC_CONSTRAINTS,
        Criticality::Critical,
        constraints.to_der()?,
    )?);
    if issuer.is_own {
        // Derived from the key, so that certificates remain valid when the authority's certificate is renewed.
        let hash = digest(&SHA256, key.info());
        let id = SubjectKeyIdentifier(OctetString::new(&hash.as_ref()[..20])?);
        all.push(extension(SUBJECT_KEY_ID, Criticality::NotCritical, id.to_der()?)?);
    }
    if let Some(id) = issuer.key_id {
        let id = AuthorityKeyIdentifier {
            key_identifier: Some(OctetString::new(id)?),
            ..AuthorityKeyIdentifier::default()
        };
        all.push(extension(
            AUTHORITY_KEY_ID,
            Criticality::NotCritical,
            id.to_der()?,
        )?);
    }
    if !template.names.is_empty() {
        // Without a subject the names are all that identifies the owner.
        let value = encode_names(template.names)?;
        let criticality = if template.subject.is_empty() {
            Criticality::Critical
        } else {
            Criticality::NotCritical
        };
        all.push(extension(SUBJECT_ALTERNATIVE_NAMES, criticality, value)?);
    }
    Ok(all)
}

/// Whether a reader that does not know an extension must refuse the certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Criticality {
    Critical,
    NotCritical,
}

fn extension(oid: ObjectIdentifier, criticality: Criticality, value: Vec<u8>) -> der::Result<Extension> {
    Ok(Extension {
        extn_id: oid,
        critical: criticality == Criticality::Critical,
        extn_value: OctetString::new(value)?,
    })
}

fn time(seconds: i64) -> Result<Time, IssueError> {
    let seconds = u64::try_from(seconds).map_err(|_| IssueError::Time)?;
    let time = der::DateTime::from_unix_duration(std::time::Duration::from_secs(seconds));
    // With a year of two digits while they suffice.
    Ok(Time::from(time.map_err(|_| IssueError::Time)?))
}
