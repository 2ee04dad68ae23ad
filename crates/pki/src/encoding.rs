//! DER with one form per value, and the structures of X.509 in it.
//!
//! Promises: what [`decode`] accepts is, encoded again, the same bytes; the time it takes is linear in their number (the
//! library's own sets are sorted by insertion, which is quadratic, and accept any order).

use der::{
    Decode, DecodeValue, Encode, EncodeValue, FixedTag, Header, Length, Reader, Sequence, Tag, Writer,
    asn1::{Any, BitString, Int, ObjectIdentifier},
};
use x509_cert::{
    ext::Extension,
    spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned},
    time::Time,
};

use crate::ParseError;

/// A SET OF whose elements are in the order that DER demands, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderedSet<T>(pub(crate) Vec<T>);

/// A distinguished name.
pub(crate) type Name = Vec<OrderedSet<NameAttribute>>;

/// An attribute of a distinguished name.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct NameAttribute {
    pub(crate) oid: ObjectIdentifier,
    pub(crate) value: Any,
}

/// A request for a certificate: PKCS #10.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct Request {
    pub(crate) info: RequestInfo,
    pub(crate) algorithm: AlgorithmIdentifierOwned,
    pub(crate) signature: BitString,
}

/// The signed part of a request.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct RequestInfo {
    pub(crate) version: u8,
    pub(crate) subject: Name,
    pub(crate) public_key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    pub(crate) attributes: OrderedSet<RequestAttribute>,
}

/// An attribute of a request.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct RequestAttribute {
    pub(crate) oid: ObjectIdentifier,
    pub(crate) values: OrderedSet<Any>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct SignedCertificate {
    pub(crate) info: CertificateInfo,
    pub(crate) algorithm: AlgorithmIdentifierOwned,
    pub(crate) signature: BitString,
}

/// The signed part of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct CertificateInfo {
    #[asn1(context_specific = "0", default = "Default::default")]
    pub(crate) version: u8,
    pub(crate) serial_number: Int,
    pub(crate) algorithm: AlgorithmIdentifierOwned,
    pub(crate) issuer: Name,
    pub(crate) validity: Validity,
    pub(crate) subject: Name,
    pub(crate) public_key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub(crate) issuer_id: Option<BitString>,
    #[asn1(context_specific = "2", tag_mode = "IMPLICIT", optional = "true")]
    pub(crate) subject_id: Option<BitString>,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT", optional = "true")]
    pub(crate) extensions: Option<Vec<Extension>>,
}

/// From when to when a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct Validity {
    pub(crate) not_before: Time,
    pub(crate) not_after: Time,
}

/// Decodes a value that fills all the bytes, in its one form.
pub(crate) fn decode<T>(bytes: &[u8]) -> Result<T, ParseError>
where
    T: for<'d> Decode<'d, Error = der::Error> + Encode,
{
    let value = T::from_der(bytes)?;
    if value.to_der()? == bytes {
        Ok(value)
    } else {
        Err(ParseError::NotCanonical)
    }
}

/// Refuses a number whose parts are written with more bytes than they need, which the library lets through: it would be another
/// number than its shortest form to us, and the same to a laxer reader.
pub(crate) fn check_number(oid: &ObjectIdentifier) -> Result<(), ParseError> {
    match ObjectIdentifier::new(&oid.to_string()) {
        Ok(shortest) if shortest == *oid => Ok(()),
        _ => Err(ParseError::NotCanonical),
    }
}

// --- OrderedSet ---

impl<T> FixedTag for OrderedSet<T> {
    const TAG: Tag = Tag::Set;
}

impl<'d, T> DecodeValue<'d> for OrderedSet<T>
where
    T: Decode<'d, Error = der::Error> + Encode,
{
    type Error = der::Error;

    fn decode_value<R: Reader<'d>>(reader: &mut R, _: Header) -> der::Result<Self> {
        let mut elements = Vec::new();
        let mut previous = Vec::new();
        while !reader.is_finished() {
            let element = T::decode(reader)?;
            let encoded = element.to_der()?;
            // No encoding is the beginning of another, so that the order of X.690 is the order of bytes.
            if previous >= encoded {
                return Err(reader.error(der::ErrorKind::SetOrdering));
            }
            previous = encoded;
            elements.push(element);
        }
        Ok(OrderedSet(elements))
    }
}

impl<T: Encode> EncodeValue for OrderedSet<T> {
    fn value_len(&self) -> der::Result<Length> {
        self.0
            .iter()
            .try_fold(Length::ZERO, |sum, element| sum + element.encoded_len()?)
    }

    fn encode_value(&self, writer: &mut impl Writer) -> der::Result<()> {
        self.0.iter().try_for_each(|element| element.encode(writer))
    }
}
