//! Whether a signature is of a key, in the words of Go.

use der::{
    Encode, Sequence,
    asn1::{Any, ObjectIdentifier},
};
use p521::ecdsa::{Signature as P521Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
use ring::{
    digest::{self, digest},
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
        RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        RSA_PKCS1_2048_8192_SHA384, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384,
        RSA_PSS_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
    },
};
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::{Curve, KeyKind, PublicKey, encoding::decode, public_key::ED25519};

/// How something is signed.
#[derive(Clone, Copy)]
enum Scheme {
    Rsa(Hash),
    /// With the padding PSS.
    RsaPss(Hash),
    Ecdsa(Hash),
    Ed25519,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The parameters of RSA with the padding PSS.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
struct PssParameters {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    hash: Option<AlgorithmIdentifierOwned>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    mask: Option<AlgorithmIdentifierOwned>,
    #[asn1(context_specific = "2", tag_mode = "EXPLICIT", optional = "true")]
    salt_bytes: Option<u8>,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT", optional = "true")]
    trailer: Option<u8>,
}

/// Why a signature is not one of a key, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// The algorithm is unknown, or not for this key.
    #[error("x509: cannot verify signature: algorithm unimplemented")]
    Unimplemented,
    /// The algorithm is for another kind of key.
    #[error(
        "x509: signature algorithm specifies an {expected} public key, but have public key of type {found}"
    )]
    OtherKey {
        /// The kind of key that the algorithm is for.
        expected: &'static str,
        /// Go's type of the key.
        found: &'static str,
    },
    /// It is not a signature of the text by an RSA key.
    #[error("crypto/rsa: verification error")]
    Rsa,
    /// It is not a signature of the text by an ECDSA key.
    #[error("x509: ECDSA verification failure")]
    Ecdsa,
    /// It is not a signature of the text by an Ed25519 key.
    #[error("x509: Ed25519 verification failure")]
    Ed25519,
}

const SCHEMES: [(ObjectIdentifier, Scheme); 7] = [
    (oid("1.2.840.113549.1.1.11"), Scheme::Rsa(Hash::Sha256)),
    (oid("1.2.840.113549.1.1.12"), Scheme::Rsa(Hash::Sha384)),
    (oid("1.2.840.113549.1.1.13"), Scheme::Rsa(Hash::Sha512)),
    (oid("1.2.840.10045.4.3.2"), Scheme::Ecdsa(Hash::Sha256)),
    (oid("1.2.840.10045.4.3.3"), Scheme::Ecdsa(Hash::Sha384)),
    (oid("1.2.840.10045.4.3.4"), Scheme::Ecdsa(Hash::Sha512)),
    (ED25519, Scheme::Ed25519),
];
const RSA_PSS: ObjectIdentifier = oid("1.2.840.113549.1.1.10");
const MASK: ObjectIdentifier = oid("1.2.840.113549.1.1.8");
const HASHES: [(ObjectIdentifier, Hash); 3] = [
    (oid("2.16.840.1.101.3.4.2.1"), Hash::Sha256),
    (oid("2.16.840.1.101.3.4.2.2"), Hash::Sha384),
    (oid("2.16.840.1.101.3.4.2.3"), Hash::Sha512),
];

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

/// Verifies that a signature of a text is one of the key.
pub(crate) fn verify(
    key: &PublicKey,
    algorithm: &AlgorithmIdentifierOwned,
    text: &[u8],
    signature: &[u8],
) -> Result<(), SignatureError> {
    let scheme = read_scheme(algorithm).ok_or(SignatureError::Unimplemented)?;
    let failure = match (scheme, key.kind()) {
        (_, KeyKind::Unknown) => return Err(SignatureError::Unimplemented),
        (Scheme::Rsa(_) | Scheme::RsaPss(_), KeyKind::Rsa { .. }) => SignatureError::Rsa,
        (Scheme::Ecdsa(_), KeyKind::Ecdsa(_)) => SignatureError::Ecdsa,
        (Scheme::Ed25519, KeyKind::Ed25519) => SignatureError::Ed25519,
        (scheme, kind) => return Err(mismatch(scheme, kind)),
    };
    let is_verified = match (scheme, key.kind()) {
        (Scheme::Ecdsa(hash), KeyKind::Ecdsa(Curve::P521)) => verify_p521(key, hash, text, signature),
        (scheme, kind) => {
            let algorithm = ring_algorithm(scheme, kind).ok_or(SignatureError::Unimplemented)?;
            let key = UnparsedPublicKey::new(algorithm, key.bits());
            key.verify(text, signature).is_ok()
        }
    };
    if is_verified { Ok(()) } else { Err(failure) }
}

fn read_scheme(algorithm: &AlgorithmIdentifierOwned) -> Option<Scheme> {
    let parameters = algorithm.parameters.as_ref();
    if algorithm.oid == RSA_PSS {
        return read_pss(&parameters?.to_der().ok()?).map(Scheme::RsaPss);
    }
    let (_, scheme) = SCHEMES.iter().find(|(oid, _)| *oid == algorithm.oid)?;
    let is_plain = match scheme {
        Scheme::Rsa(_) => parameters.is_none_or(Any::is_null),
        _ => parameters.is_none(),
    };
    is_plain.then_some(*scheme)
}

/// The hash of the padding, whose salt must be as long as that, and made with the same hash, as Go has it.
fn read_pss(parameters: &[u8]) -> Option<Hash> {
    let parameters: PssParameters = decode(parameters).ok()?;
    let hash = read_hash(&parameters.hash?)?;
    let mask = parameters.mask.filter(|mask| mask.oid == MASK)?;
    let mask: AlgorithmIdentifierOwned = decode(&mask.parameters?.to_der().ok()?).ok()?;
    let is_usual = read_hash(&mask)? == hash
        && parameters.salt_bytes.map(usize::from) == Some(hash.algorithm().output_len())
        && parameters.trailer.is_none_or(|trailer| trailer == 1);
    is_usual.then_some(hash)
}

fn read_hash(algorithm: &AlgorithmIdentifierOwned) -> Option<Hash> {
    let is_plain = algorithm.parameters.as_ref().is_none_or(Any::is_null);
    let (_, hash) = HASHES.iter().find(|(oid, _)| *oid == algorithm.oid)?;
    is_plain.then_some(*hash)
}

fn ring_algorithm(scheme: Scheme, kind: KeyKind) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (scheme, kind) {
        (Scheme::Rsa(Hash::Sha256), _) => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        (Scheme::Rsa(Hash::Sha384), _) => &RSA_PKCS1_2048_8192_SHA384,
        (Scheme::Rsa(Hash::Sha512), _) => &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        (Scheme::RsaPss(Hash::Sha256), _) => &RSA_PSS_2048_8192_SHA256,
        (Scheme::RsaPss(Hash::Sha384), _) => &RSA_PSS_2048_8192_SHA384,
        (Scheme::RsaPss(Hash::Sha512), _) => &RSA_PSS_2048_8192_SHA512,
        (Scheme::Ecdsa(Hash::Sha256), KeyKind::Ecdsa(Curve::P256)) => &ECDSA_P256_SHA256_ASN1,
        (Scheme::Ecdsa(Hash::Sha384), KeyKind::Ecdsa(Curve::P256)) => &ECDSA_P256_SHA384_ASN1,
        (Scheme::Ecdsa(Hash::Sha256), KeyKind::Ecdsa(Curve::P384)) => &ECDSA_P384_SHA256_ASN1,
        (Scheme::Ecdsa(Hash::Sha384), KeyKind::Ecdsa(Curve::P384)) => &ECDSA_P384_SHA384_ASN1,
        (Scheme::Ed25519, _) => &ring::signature::ED25519,
        (Scheme::Ecdsa(_), _) => return None,
    })
}

fn verify_p521(key: &PublicKey, hash: Hash, text: &[u8], signature: &[u8]) -> bool {
    const FIELD_BYTES: usize = 66;
    let hashed = digest(hash.algorithm(), text);
    // The library refuses hashes shorter than half a field; with zeros before it the number is the same.
    let mut padded = [0; FIELD_BYTES];
    padded[FIELD_BYTES - hashed.as_ref().len()..].copy_from_slice(hashed.as_ref());
    let verified = || {
        let signature = P521Signature::from_der(signature).ok()?;
        let key = VerifyingKey::from_sec1_bytes(key.bits()).ok()?;
        key.verify_prehash(&padded, &signature).ok()
    };
    verified().is_some()
}

fn mismatch(scheme: Scheme, kind: KeyKind) -> SignatureError {
    let expected = match scheme {
        Scheme::Rsa(_) | Scheme::RsaPss(_) => "RSA",
        Scheme::Ecdsa(_) => "ECDSA",
        Scheme::Ed25519 => "Ed25519",
    };
    let found = match kind {
        KeyKind::Rsa { .. } => "*rsa.PublicKey",
        KeyKind::Ecdsa(_) => "*ecdsa.PublicKey",
        KeyKind::Ed25519 | KeyKind::Unknown => "ed25519.PublicKey",
    };
    SignatureError::OtherKey { expected, found }
}

// --- Hash ---

impl Hash {
    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}
