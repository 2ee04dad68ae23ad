//! Private keys and signing.

use std::fmt;

use der::asn1::{Any, ObjectIdentifier};
use rcgen::{
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData, SigningKey,
};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_cert::spki::AlgorithmIdentifierOwned;

use crate::{KeyError, ParseError, PublicKey};

/// A private key with its public one.
pub struct KeyPair(rcgen::KeyPair);

// --- KeyPair ---

impl KeyPair {
    /// A new key of ECDSA P-256.
    pub fn generate() -> Result<Self, KeyError> {
        Ok(KeyPair(rcgen::KeyPair::generate()?))
    }

    /// Reads the private key of a text (PKCS #8).
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        Ok(KeyPair(rcgen::KeyPair::from_pem(text)?))
    }

    /// The private key as text.
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// The private key in PKCS #8 form.
    pub fn to_pkcs8(&self) -> Vec<u8> {
        self.0.serialize_der()
    }

    /// The private key in rustls' format.
    pub fn to_private_key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.to_pkcs8()).into()
    }

    /// The public key.
    pub fn public_key(&self) -> Result<PublicKey, ParseError> {
        PublicKey::from_info(&self.0.subject_public_key_info())
    }

    /// The public key as text.
    pub fn public_key_pem(&self) -> String {
        self.0.public_key_pem()
    }

    /// Whether it is a key of ECDSA P-256.
    pub fn is_p256(&self) -> bool {
        self.0.is_compatible(&PKCS_ECDSA_P256_SHA256)
    }

    /// Signs a text, in the way that [`KeyPair::algorithm`] names.
    pub(crate) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, KeyError> {
        Ok(self.0.sign(text)?)
    }

    pub(crate) fn algorithm(&self) -> Result<AlgorithmIdentifierOwned, KeyError> {
        let own = self.0.algorithm();
        let (oid, parameters) = if own == &PKCS_ECDSA_P256_SHA256 {
            ("1.2.840.10045.4.3.2", None)
        } else if own == &PKCS_ECDSA_P384_SHA384 {
            ("1.2.840.10045.4.3.3", None)
        } else if own == &PKCS_ED25519 {
            ("1.3.101.112", None)
        } else if own == &PKCS_RSA_SHA256 {
            ("1.2.840.113549.1.1.11", Some(Any::null()))
        } else {
            return Err(KeyError("a key of that sort cannot sign certificates".to_owned()));
        };
        Ok(AlgorithmIdentifierOwned {
            oid: ObjectIdentifier::new_unwrap(oid),
            parameters,
        })
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair")
    }
}

// --- KeyError ---

impl From<rcgen::Error> for KeyError {
    fn from(error: rcgen::Error) -> Self {
        KeyError(error.to_string())
    }
}
