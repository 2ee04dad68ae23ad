//! Errors of parsing, verification and creation.

use crate::{KeyKind, SignatureError};

/// Why bytes are not the certificate, request or key that they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// They are not DER of that structure.
    #[error("asn1: structure error: {0}")]
    Structure(String),
    /// They have another form than the one that DER has for these values.
    #[error("asn1: structure error: the encoding is not canonical")]
    NotCanonical,
    /// A part of the subject cannot be used.
    #[error("x509: invalid subject: {0}")]
    Subject(&'static str),
    /// The public key cannot be used.
    #[error("x509: {0}")]
    PublicKey(&'static str),
    /// Subject alternative names cannot be used.
    #[error("x509: invalid subject alternative names: {0}")]
    AlternativeNames(&'static str),
    /// A field has a value that no certificate or request may have.
    #[error("x509: {0}")]
    Field(&'static str),
    /// There is an attribute or extension with a meaning that is not known.
    #[error("x509: unsupported {0}")]
    Unsupported(String),
    /// An attribute or extension appears more than once.
    #[error("x509: duplicate {0}")]
    Duplicate(String),
}

/// A text without a usable PEM block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PemError {
    /// There is no block of the wanted label.
    #[error("no PEM block {0}")]
    Missing(&'static str),
    /// A block is damaged.
    #[error("a damaged PEM block: {0}")]
    Damaged(String),
}

/// Why there is no certificate request in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The text has no block for a request.
    // upstream: pkg/apis/certificates/v1/helpers.go ParseCSR
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Label,
    /// The text has something besides the one block: readers could differ about which one counts.
    #[error("there must be one PEM block without headers, and no other")]
    Blocks,
    /// The bytes are no request.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The signature is not the one of the key in the request.
    #[error("{source}")]
    Signature {
        /// The sort of the key.
        key: KeyKind,
        /// What is wrong with it.
        source: SignatureError,
    },
}

/// An error of creating or using a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub(crate) String);

/// Why a certificate cannot be issued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// The values cannot be encoded.
    #[error("cannot encode a certificate: {0}")]
    Encode(String),
    /// The certificate of the authority is not for its key.
    #[error("the certificate of the authority is not for its key")]
    AuthorityKey,
    /// The certificate of the authority cannot be read.
    #[error("the certificate of the authority: {0}")]
    Authority(ParseError),
    /// A date is outside the range of certificates.
    #[error("a certificate cannot be valid at that time")]
    Time,
    /// The key cannot sign.
    #[error("cannot sign: {0}")]
    Sign(#[from] KeyError),
}

// --- ParseError ---

impl From<der::Error> for ParseError {
    fn from(error: der::Error) -> Self {
        ParseError::Structure(error.to_string())
    }
}

// --- IssueError ---

impl From<der::Error> for IssueError {
    fn from(error: der::Error) -> Self {
        IssueError::Encode(error.to_string())
    }
}
