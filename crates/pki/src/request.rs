//! Requests for certificates: PKCS #10.
//!
//! Promises: a request that was read has a subject and names that are all there is of them, and a signature of its key.

use std::collections::BTreeSet;

use der::{
    Decode, Encode, Tag, Tagged,
    asn1::{Any, ObjectIdentifier},
};
use x509_cert::ext::{
    Extension,
    pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectKeyIdentifier},
};

use crate::{
    AlternativeName, AlternativeNames, Identity, ParseError, PublicKey, RequestError, Subject,
    certificate::{
        BASIC_CONSTRAINTS, EXTENDED_KEY_USAGE, KEY_USAGE, SUBJECT_ALTERNATIVE_NAMES, SUBJECT_KEY_ID,
    },
    encoding::{self, OrderedSet, RequestAttribute, RequestInfo, check_number, decode},
    pem_block::pem_blocks,
    signature,
};

/// A request, read and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    subject: Subject,
    identity: Identity,
    names: Vec<AlternativeName>,
    public_key: PublicKey,
}

const LABEL: &str = "CERTIFICATE REQUEST";
pub(crate) const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
/// Attributes that OpenSSL writes by default; they are ignored.
const CHALLENGE_PASSWORD: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.7");
const UNSTRUCTURED_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.2");

// --- CertificateRequest ---

impl CertificateRequest {
    /// Reads the one request of a text.
    pub fn from_pem(text: &[u8]) -> Result<Self, RequestError> {
        let blocks = pem_blocks(text);
        let first = blocks.first().filter(|block| block.label == LABEL);
        let first = first.ok_or(RequestError::Label)?;
        if blocks.len() > 1 || first.has_headers {
            return Err(RequestError::Blocks);
        }
        Self::from_der(&first.bytes)
    }

    /// Reads a request that fills all the bytes.
    pub fn from_der(bytes: &[u8]) -> Result<Self, RequestError> {
        let request: encoding::Request = decode(bytes)?;
        let read = Self::read(&request.info)?;
        let signature = request.signature.as_bytes();
        let signature = signature.ok_or(ParseError::Field("malformed signature"))?;
        let text = request.info.to_der().map_err(ParseError::from)?;
        signature::verify(&read.public_key, &request.algorithm, &text, signature).map_err(|source| {
            RequestError::Signature {
                key: read.public_key.kind(),
                source,
            }
        })?;
        Ok(read)
    }

    /// Whom it is for.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The Kubernetes user and groups of the subject.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The requested subject alternative names.
    pub fn names(&self) -> &[AlternativeName] {
        &self.names
    }

    /// The key that is to be certified.
    pub fn public_key(&self) -> &PublicKey {
        &self.public_key
    }

    fn read(info: &RequestInfo) -> Result<Self, ParseError> {
        if info.version != 0 {
            return Err(ParseError::Field("unsupported version of a certificate request"));
        }
        let subject = Subject::read(&info.subject)?;
        if subject.count_common_names() > 1 {
            return Err(ParseError::Duplicate(
                "common name in a certificate request".to_owned(),
            ));
        }
        let mut request = CertificateRequest {
            identity: subject.identity(),
            subject,
            names: Vec::new(),
            public_key: PublicKey::read(&info.public_key)?,
        };
        let mut seen = BTreeSet::new();
        for attribute in &info.attributes.0 {
            if !seen.insert(attribute.oid) {
                return Err(ParseError::Duplicate(format!("attribute {}", attribute.oid)));
            }
            request.read_attribute(attribute)?;
        }
        Ok(request)
    }

    fn read_attribute(&mut self, attribute: &RequestAttribute) -> Result<(), ParseError> {
        let OrderedSet(values) = &attribute.values;
        let [value] = &values[..] else {
            return Err(ParseError::Field("an attribute that has not one value"));
        };
        match attribute.oid {
            EXTENSION_REQUEST => self.read_extensions(value),
            CHALLENGE_PASSWORD | UNSTRUCTURED_NAME if is_text(value) => Ok(()),
            oid => Err(ParseError::Unsupported(format!(
                "attribute {oid} in a certificate request"
            ))),
        }
    }

    fn read_extensions(&mut self, value: &Any) -> Result<(), ParseError> {
        let extensions: Vec<Extension> = decode(&value.to_der()?)?;
        let mut seen = BTreeSet::new();
        for extension in extensions {
            let oid = extension.extn_id;
            if !seen.insert(oid) {
                return Err(ParseError::Duplicate(format!("extension {oid}")));
            }
            let value = extension.extn_value.as_bytes();
            match oid {
                SUBJECT_ALTERNATIVE_NAMES => {
                    let read = AlternativeNames::read(value)?;
                    if read.has_others {
                        return Err(ParseError::Unsupported("subject alternative name".to_owned()));
                    }
                    self.names = read.names;
                }
                // What a certificate is good for is said by the object around the request. These are read, so that
                // nothing is in them that is not understood.
                KEY_USAGE => check::<KeyUsage>(value)?,
                EXTENDED_KEY_USAGE => {
                    let ExtendedKeyUsage(purposes) = decode(value)?;
                    purposes.iter().try_for_each(check_number)?;
                }
                BASIC_CONSTRAINTS => check::<BasicConstraints>(value)?,
                SUBJECT_KEY_ID => check::<SubjectKeyIdentifier>(value)?,
                _ => {
                    return Err(ParseError::Unsupported(format!(
                        "extension {oid} in a certificate request"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Whether a value is as required.
fn check<T>(value: &[u8]) -> Result<(), ParseError>
where
    T: for<'d> Decode<'d, Error = der::Error> + Encode,
{
    decode::<T>(value).map(|_| ())
}

fn is_text(value: &Any) -> bool {
    let is_text = matches!(
        value.tag(),
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::TeletexString | Tag::BmpString
    );
    is_text && value.value().len() <= 255
}
