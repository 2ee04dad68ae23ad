//! The keys of service-account tokens: one that signs, and all that are believed.
//!
//! Promises: a key is good for one algorithm alone, so that a token cannot choose how it is verified; a key is called by a
//! hash of it, as upstream does, so that tokens say which one they mean.

use k3_api::base64;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Value, json};

use super::der::{BITS, BadDer, Der, INTEGER, OBJECT, SEQUENCE};

/// A key that tokens are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    algorithm: Algorithm,
    /// A point of the curve, or the modulus and the exponent in PKCS#1 form.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Es256,
    Es384,
    Rs256,
}

/// Signs tokens.
pub(crate) struct Signer {
    issuer: String,
    key: EcdsaKeyPair,
    public: PublicKey,
}

/// A signing key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the signing key of service accounts is not an ECDSA P-256 key in PKCS#8 form")]
pub struct BadSigningKey;

/// A key that no token can be verified with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a public key of ECDSA P-256, ECDSA P-384 or RSA")]
pub struct BadPublicKey;

/// 1.2.840.10045.2.1
const ELLIPTIC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
/// 1.2.840.10045.3.1.7
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// 1.3.132.0.34
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
/// What stands before a point of P-256 where keys of all sorts may stand.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 0x06, 8, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 3, 1, 7, 0x03, 0x42, 0,
];

// --- PublicKey ---

impl PublicKey {
    /// Reads a key in the form of a `PUBLIC KEY` in PEM files (`SubjectPublicKeyInfo`).
    pub fn read(der: &[u8]) -> Result<Self, BadPublicKey> {
        Self::parse(der).map_err(|_| BadPublicKey)?.ok_or(BadPublicKey)
    }

    fn parse(der: &[u8]) -> Result<Option<Self>, BadDer> {
        let mut body = Der(der).expect(SEQUENCE, "it is no sequence")?;
        let mut kind = body.expect(SEQUENCE, "it has no algorithm")?;
        let name = kind.expect(OBJECT, "its algorithm has no name")?.0;
        let curve = match kind.next()? {
            Some((OBJECT, curve)) => curve,
            _ => &[],
        };
        let Der([0, bytes @ ..]) = body.expect(BITS, "it has no key")? else {
            return Ok(None);
        };
        let algorithm = match (name, curve) {
            (ELLIPTIC, P256) if bytes.len() == 65 => Algorithm::Es256,
            (ELLIPTIC, P384) if bytes.len() == 97 => Algorithm::Es384,
            (RSA, _) => {
                parts_of_rsa(bytes)?;
                Algorithm::Rs256
            }
            _ => return Ok(None),
        };
        Ok(Some(PublicKey {
            id: key_id(der),
            algorithm,
            bytes: bytes.to_vec(),
        }))
    }

    fn of_point(point: &[u8]) -> Self {
        PublicKey {
            id: key_id(&[&P256_HEAD, point].concat()),
            algorithm: Algorithm::Es256,
            bytes: point.to_vec(),
        }
    }

    /// What tokens call it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The key itself.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the signature, which says that it was made in this way, is of this key.
    pub(super) fn verifies(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        algorithm == self.algorithm.name()
            && UnparsedPublicKey::new(self.algorithm.verification(), &self.bytes)
                .verify(text, signature)
                .is_ok()
    }

    /// The key as those who verify tokens elsewhere want it.
    fn for_others(&self) -> Value {
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.algorithm.name()});
        let parts = match self.algorithm {
            Algorithm::Es256 => self.coordinates("P-256"),
            Algorithm::Es384 => self.coordinates("P-384"),
            Algorithm::Rs256 => {
                let (modulus, exponent) = parts_of_rsa(&self.bytes).unwrap_or_default();
                let text = |number: &[u8]| {
                    let zeros = number.iter().take_while(|byte| **byte == 0).count();
                    Value::from(base64::encode_url(number.get(zeros..).unwrap_or_default()))
                };
                vec![("kty", "RSA".into()), ("n", text(modulus)), ("e", text(exponent))]
            }
        };
        for (name, value) in parts {
            k3_api::rules::TreeMut::set(&mut key, name, value);
        }
        key
    }

    fn coordinates(&self, curve: &str) -> Vec<(&'static str, Value)> {
        // An uncompressed point: 4, then both coordinates.
        let (x, y) = self.bytes.split_at(self.bytes.len().div_ceil(2));
        let x = x.get(1..).unwrap_or_default();
        vec![
            ("kty", "EC".into()),
            ("crv", curve.into()),
            ("x", base64::encode_url(x).into()),
            ("y", base64::encode_url(y).into()),
        ]
    }
}

fn key_id(der: &[u8]) -> String {
    base64::encode_url(ring::digest::digest(&ring::digest::SHA256, der).as_ref())
}

/// The modulus and the exponent.
fn parts_of_rsa(bytes: &[u8]) -> Result<(&[u8], &[u8]), BadDer> {
    let mut parts = Der(bytes).expect(SEQUENCE, "it is no sequence")?;
    let modulus = parts.expect(INTEGER, "it has no modulus")?.0;
    Ok((modulus, parts.expect(INTEGER, "it has no exponent")?.0))
}

// --- Algorithm ---

impl Algorithm {
    fn name(self) -> &'static str {
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

// --- Signer ---

impl Signer {
    /// Signs as an issuer, with a P-256 key in PKCS#8 form.
    pub(crate) fn new(issuer: String, pkcs8: &[u8]) -> Result<Self, BadSigningKey> {
        let random = ring::rand::SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|_| BadSigningKey)?;
        let public = PublicKey::of_point(key.public_key().as_ref());
        Ok(Signer { issuer, key, public })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key that verifies what is signed here.
    pub(super) fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.public.id});
        let part = |value: &Value| base64::encode_url(value.to_string().as_bytes());
        let text = format!("{}.{}", part(&header), part(claims));
        let random = ring::rand::SystemRandom::new();
        let signature = self
            .key
            .sign(&random, text.as_bytes())
            .expect("a P-256 key signs any text");
        format!("{text}.{}", base64::encode_url(signature.as_ref()))
    }

    /// What those who verify tokens elsewhere ask first.
    pub(crate) fn configuration(&self, address: &str, keys: &[PublicKey]) -> Value {
        let mut algorithms: Vec<_> = keys.iter().map(|key| key.algorithm.name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }
}

/// The keys that verify tokens, as a set for others.
pub(super) fn key_set(keys: &[PublicKey]) -> Value {
    json!({"keys": keys.iter().map(PublicKey::for_others).collect::<Vec<_>>()})
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{KeyPair, PublicKeyData};

    use super::*;

    pub(in super::super) fn signer() -> Signer {
        let key = KeyPair::generate().unwrap();
        Signer::new("https://issuer".to_owned(), &key.serialize_der()).unwrap()
    }

    #[test]
    fn a_key_has_the_same_name_however_it_comes() {
        let key = KeyPair::generate().unwrap();
        let signer = Signer::new(String::new(), &key.serialize_der()).unwrap();
        let read = PublicKey::read(&key.subject_public_key_info()).unwrap();
        assert_eq!(&read, signer.public());
    }

    #[test]
    fn a_key_of_another_curve_is_for_another_algorithm() {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let read = PublicKey::read(&key.subject_public_key_info()).unwrap();
        let set = key_set(std::slice::from_ref(&read));
        assert_eq!(set["keys"][0]["crv"], "P-384");
        assert_eq!(set["keys"][0]["alg"], "ES384");
        assert!(!read.verifies("ES256", b"", b""));
    }

    #[test]
    fn what_is_no_key_is_refused_without_a_panic() {
        let whole = KeyPair::generate().unwrap().subject_public_key_info();
        for length in 0..whole.len() {
            assert_eq!(PublicKey::read(&whole[..length]), Err(BadPublicKey), "{length}");
        }
        let edwards = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        assert_eq!(
            PublicKey::read(&edwards.subject_public_key_info()),
            Err(BadPublicKey)
        );
    }

    #[test]
    fn the_set_for_others_has_both_coordinates() {
        let signer = signer();
        let set = key_set(std::slice::from_ref(signer.public()));
        let key = &set["keys"][0];
        for name in ["x", "y"] {
            let bytes = base64::decode_url(key[name].as_str().unwrap()).unwrap();
            assert_eq!(bytes.len(), 32, "{name}");
        }
        assert_eq!(key["kid"], signer.public().id());
    }
}
