//! Public keys: which sort they are, and their one encoding.

use der::{
    Encode, Sequence,
    asn1::{Any, ObjectIdentifier, Uint},
};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::{ParseError, encoding::decode};

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    /// The whole of it, with its algorithm.
    info: Vec<u8>,
    /// The key alone: a point of a curve, or modulus and exponent in PKCS #1 form.
    bits: Vec<u8>,
}

/// What sort a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Ed25519.
    Ed25519,
    /// ECDSA on one of the NIST curves.
    Ecdsa(Curve),
    /// RSA with a modulus of so many bits.
    Rsa {
        /// How many.
        bits: usize,
    },
    /// One that Go does not know either.
    Unknown,
}

/// An elliptic curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// secp224r1, with which nothing is verified here.
    P224,
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// secp521r1.
    P521,
}

/// A key of RSA in PKCS #1 form.
#[derive(Clone, Debug, PartialEq, Eq, Sequence)]
pub(crate) struct RsaKey {
    pub(crate) modulus: Uint,
    pub(crate) exponent: Uint,
}

pub(crate) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ECDSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
pub(crate) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const CURVES: [(ObjectIdentifier, Curve, usize); 4] = [
    (ObjectIdentifier::new_unwrap("1.3.132.0.33"), Curve::P224, 28),
    (
        ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"),
        Curve::P256,
        32,
    ),
    (ObjectIdentifier::new_unwrap("1.3.132.0.34"), Curve::P384, 48),
    (ObjectIdentifier::new_unwrap("1.3.132.0.35"), Curve::P521, 66),
];

// --- PublicKey ---

impl PublicKey {
    /// Reads a key with its algorithm (`SubjectPublicKeyInfo`), as in a PEM block `PUBLIC KEY`.
    pub fn from_info(der: &[u8]) -> Result<Self, ParseError> {
        Self::read(&decode(der)?)
    }

    /// What sort it is.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The key with its algorithm, in DER.
    pub fn info(&self) -> &[u8] {
        &self.info
    }

    /// The key alone.
    pub(crate) fn bits(&self) -> &[u8] {
        &self.bits
    }

    pub(crate) fn read(info: &SubjectPublicKeyInfoOwned) -> Result<Self, ParseError> {
        let bits = info.subject_public_key.as_bytes();
        let bits = bits.ok_or(ParseError::PublicKey("malformed subjectPublicKey"))?;
        Ok(PublicKey {
            kind: read_kind(info, bits)?,
            info: info.to_der()?,
            bits: bits.to_vec(),
        })
    }
}

fn read_kind(info: &SubjectPublicKeyInfoOwned, bits: &[u8]) -> Result<KeyKind, ParseError> {
    let fail = |why| Err(ParseError::PublicKey(why));
    let parameters = info.algorithm.parameters.as_ref();
    Ok(match info.algorithm.oid {
        RSA => {
            if !parameters.is_some_and(Any::is_null) {
                return fail("RSA key missing NULL parameters");
            }
            let key: RsaKey = decode(bits).map_err(|_| ParseError::PublicKey("invalid RSA public key"))?;
            let modulus = key.modulus.as_bytes();
            let Some(first) = modulus.first().filter(|first| **first != 0) else {
                return fail("invalid RSA modulus");
            };
            let unused = usize::try_from(first.leading_zeros()).unwrap_or_default();
            KeyKind::Rsa {
                bits: modulus.len() * 8 - unused,
            }
        }
        ECDSA => {
            let named: Option<ObjectIdentifier> = parameters.and_then(|curve| curve.decode_as().ok());
            let Some(named) = named else {
                return fail("invalid ECDSA parameters");
            };
            let Some((_, curve, size)) = CURVES.iter().find(|(oid, ..)| *oid == named) else {
                return fail("unsupported elliptic curve");
            };
            if bits.len() != 1 + 2 * size || bits[0] != 4 {
                return fail("failed to unmarshal elliptic curve point");
            }
            KeyKind::Ecdsa(*curve)
        }
        ED25519 if parameters.is_some() => return fail("Ed25519 key encoded with illegal parameters"),
        ED25519 if bits.len() != 32 => return fail("wrong Ed25519 public key size"),
        ED25519 => KeyKind::Ed25519,
        _ => KeyKind::Unknown,
    })
}
