//! Service account keys: the signing key, and all verification keys.
//!
//! Promises: a key is valid for one algorithm, so that a token cannot choose how it is verified; the key ID is a hash of the
//! key, as upstream.

use k3_api::base64;
use k3_pki::{TokenKey, TokenKeyParts, TokenSigner};
use serde_json::{Value, json};

/// A key that tokens are verified with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    key: TokenKey,
}

/// Signs tokens.
pub(crate) struct Signer {
    issuer: String,
    key: TokenSigner,
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

// --- PublicKey ---

impl From<TokenKey> for PublicKey {
    fn from(key: TokenKey) -> Self {
        let hash = ring::digest::digest(&ring::digest::SHA256, key.info());
        PublicKey {
            id: base64::encode_url(hash.as_ref()),
            key,
        }
    }
}

impl PublicKey {
    /// Takes a key for tokens, if it is of a sort that verifies some.
    pub fn new(key: k3_pki::PublicKey) -> Result<Self, BadPublicKey> {
        TokenKey::new(key).map(Self::from).map_err(|_| BadPublicKey)
    }

    /// The key ID (`kid`).
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The key with its algorithm, in DER.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        self.key.info()
    }

    /// Whether the signature, made with the named algorithm, is valid for this key.
    pub(super) fn verifies(&self, algorithm: &str, text: &[u8], signature: &[u8]) -> bool {
        self.key.verifies(algorithm, text, signature)
    }

    /// The public key as a JSON Web Key.
    fn for_others(&self) -> Value {
        let mut key = json!({"use": "sig", "kid": self.id, "alg": self.key.algorithm().name()});
        let text = |number: &[u8]| Value::from(base64::encode_url(number));
        let parts = match self.key.parts() {
            TokenKeyParts::Elliptic { curve, x, y } => {
                vec![
                    ("kty", "EC".into()),
                    ("crv", curve.into()),
                    ("x", text(&x)),
                    ("y", text(&y)),
                ]
            }
            TokenKeyParts::Rsa { modulus, exponent } => {
                vec![
                    ("kty", "RSA".into()),
                    ("n", text(&modulus)),
                    ("e", text(&exponent)),
                ]
            }
        };
        for (name, value) in parts {
            k3_api::strategy::TreeMut::set(&mut key, name, value);
        }
        key
    }
}

// --- Signer ---

impl Signer {
    /// Signs as an issuer, with a P-256 key in PKCS#8 form.
    pub(crate) fn new(issuer: String, pkcs8: &[u8]) -> Result<Self, BadSigningKey> {
        let key = TokenSigner::from_pkcs8(pkcs8).map_err(|_| BadSigningKey)?;
        let public = PublicKey::from(key.public().clone());
        Ok(Signer { issuer, key, public })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The public key of the signing key.
    pub(super) fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.public.id});
        let part = |value: &Value| base64::encode_url(value.to_string().as_bytes());
        let text = format!("{}.{}", part(&header), part(claims));
        format!("{text}.{}", base64::encode_url(&self.key.sign(text.as_bytes())))
    }

    /// The OpenID provider configuration.
    pub(crate) fn configuration(&self, address: &str, keys: &[PublicKey]) -> Value {
        let mut algorithms: Vec<_> = keys.iter().map(|key| key.key.algorithm().name()).collect();
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
// upstream: pkg/serviceaccount/openidmetadata.go openIDKeysetJSON
pub(super) fn key_set(keys: &[PublicKey]) -> Value {
    json!({"keys": keys.iter().map(PublicKey::for_others).collect::<Vec<_>>()})
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{KeyPair, PublicKeyData};

    use super::*;

    fn read(info: &[u8]) -> Result<PublicKey, BadPublicKey> {
        let key = k3_pki::PublicKey::from_info(info).map_err(|_| BadPublicKey)?;
        PublicKey::new(key)
    }

    pub(in super::super) fn signer() -> Signer {
        let key = KeyPair::generate().unwrap();
        Signer::new("https://issuer".to_owned(), &key.serialize_der()).unwrap()
    }

    #[test]
    fn key_id_is_independent_of_encoding() {
        let key = KeyPair::generate().unwrap();
        let signer = Signer::new(String::new(), &key.serialize_der()).unwrap();
        let public = read(&key.subject_public_key_info()).unwrap();
        assert_eq!(&public, signer.public());
    }

    #[test]
    fn curve_determines_algorithm() {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let public = read(&key.subject_public_key_info()).unwrap();
        let set = key_set(std::slice::from_ref(&public));
        assert_eq!(set["keys"][0]["crv"], "P-384");
        assert_eq!(set["keys"][0]["alg"], "ES384");
        assert!(!public.verifies("ES256", b"", b""));
    }

    #[test]
    fn rejects_invalid_key_without_panic() {
        let whole = KeyPair::generate().unwrap().subject_public_key_info();
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Err(BadPublicKey), "{length}");
        }
        let edwards = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        assert_eq!(read(&edwards.subject_public_key_info()), Err(BadPublicKey));
    }

    #[test]
    fn jwks_has_both_coordinates() {
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
