//! Certificates, certificate signing requests, keys and signatures: the only crate that reads or writes DER and PEM.
//!
//! Promises: bytes are read once, into values; everybody who decides something decides by those values. What has more than
//! one form in BER is accepted in its one DER form only; bytes that are left over, attributes and extensions that are not
//! understood, and ones that appear twice are errors. A certificate is encoded from values, never from bytes of a request.
//! Nothing here does I/O; time is passed in, and so are serial numbers.

mod alternative_names;
mod authority;
mod certificate;
mod encoding;
mod error;
mod key_pair;
mod key_usage;
mod new_request;
mod pem_block;
mod public_key;
mod request;
mod signature;
mod subject;
mod token_key;

pub use self::{
    alternative_names::{AlternativeName, AlternativeNames},
    authority::{Authority, Template, self_signed_certificate},
    certificate::Certificate,
    error::{IssueError, KeyError, ParseError, PemError, RequestError},
    key_pair::KeyPair,
    new_request::new_request,
    pem_block::{
        PemBlock, certificate_to_pem, find_certificates, is_pem, pem_blocks, read_certificates,
        read_private_key, read_public_keys,
    },
    public_key::{Curve, KeyKind, PublicKey},
    request::CertificateRequest,
    signature::SignatureError,
    subject::{Identity, Subject},
    token_key::{TokenAlgorithm, TokenKey, TokenKeyParts, TokenSigner},
};
