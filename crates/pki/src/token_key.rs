//! The keys of signed tokens.
//!
//! Promise: a key is good for one algorithm alone, so that a token cannot choose how it is verified.

use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, EcdsaKeyPair,
        RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    },
};
use rustls_pki_types::PrivatePkcs8KeyDer;

use crate::{Curve, KeyError, KeyKind, ParseError, PublicKey, encoding::decode, public_key::RsaKey};

/// A key that tokens are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKey {
    algorithm: TokenAlgorithm,
    key: PublicKey,
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenAlgorithm {
    /// ECDSA P-256 with SHA-256.
    Es256,
    /// ECDSA P-384 with SHA-384.
    Es384,
    /// RSA, PKCS #1, with SHA-256.
    Rs256,
}

/// The numbers of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKeyParts {
    /// A point of a curve.
    Elliptic {
        /// The name of the curve, as in JSON Web Keys.
        curve: &'static str,
        /// The first coordinate.
        x: Vec<u8>,
        /// The second one.
        y: Vec<u8>,
    },
    /// The numbers of RSA, without leading zeros.
    Rsa {
        /// The modulus.
        modulus: Vec<u8>,
        /// The exponent.
        exponent: Vec<u8>,
    },
}

/// Signs tokens with ES256.
pub struct TokenSigner {
    key: EcdsaKeyPair,
    public: TokenKey,
}

// --- TokenKey ---

impl TokenKey {
    /// A key for tokens. Those of other sorts than the three algorithms know are refused.
    pub fn new(key: PublicKey) -> Result<Self, ParseError> {
        let algorithm = match key.kind() {
            KeyKind::Ecdsa(Curve::P256) => TokenAlgorithm::Es256,
            KeyKind::Ecdsa(Curve::P384) => TokenAlgorithm::Es384,
            KeyKind::Rsa { .. } => TokenAlgorithm::Rs256,
            _ => return Err(ParseError::PublicKey("a key of that sort verifies no tokens")),
        };
        Ok(TokenKey { algorithm, key })
    }

    /// The algorithm it is good for.
    pub fn algorithm(&self) -> TokenAlgorithm {
        self.algorithm
    }

    /// The key with its algorithm, in DER.
    pub fn info(&self) -> &[u8] {
        self.key.info()
    }

    /// Verifies a signature with the algorithm that the token names.
    pub fn verifies(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        algorithm == self.algorithm.name()
            && UnparsedPublicKey::new(self.algorithm.verification(), self.key.bits())
                .verify(text, signature)
                .is_ok()
    }

    /// Its numbers.
    pub fn parts(&self) -> TokenKeyParts {
        let curve = match self.algorithm {
            TokenAlgorithm::Es256 => "P-256",
            TokenAlgorithm::Es384 => "P-384",
            TokenAlgorithm::Rs256 => {
                let key: RsaKey = decode(self.key.bits()).expect("a key of RSA was read before");
                return TokenKeyParts::Rsa {
                    modulus: key.modulus.as_bytes().to_vec(),
                    exponent: key.exponent.as_bytes().to_vec(),
                };
            }
        };
        // An uncompressed point: 4, then both coordinates.
        let coordinates = &self.key.bits()[1..];
        let (x, y) = coordinates.split_at(coordinates.len() / 2);
        TokenKeyParts::Elliptic {
            curve,
            x: x.to_vec(),
            y: y.to_vec(),
        }
    }
}

// --- TokenAlgorithm ---

impl TokenAlgorithm {
    /// What tokens call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }

    fn verification(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::Es256 => &ECDSA_P256_SHA256_FIXED,
            Self::Es384 => &ECDSA_P384_SHA384_FIXED,
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

// --- TokenSigner ---

impl TokenSigner {
    /// Signs with a key of ECDSA P-256 in PKCS #8 form.
    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let unusable = || KeyError("not a key of ECDSA P-256 in PKCS#8 form".to_owned());
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|_| unusable())?;
        let whole = rcgen::KeyPair::try_from(&PrivatePkcs8KeyDer::from(pkcs8))?;
        let public = PublicKey::from_info(&rcgen::PublicKeyData::subject_public_key_info(&whole));
        let public = public.and_then(TokenKey::new).map_err(|_| unusable())?;
        Ok(TokenSigner { key, public })
    }

    /// The public key that verifies the signatures.
    pub fn public(&self) -> &TokenKey {
        &self.public
    }

    /// The signature of a text.
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        let signature = self.key.sign(&SystemRandom::new(), text);
        signature.expect("a P-256 key signs any text").as_ref().to_vec()
    }
}
