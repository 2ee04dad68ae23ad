//! JSON Web Tokens in compact form: header, claims and signature, base64url, separated by dots.
//!
//! Promises: no claim is used before one of our keys has verified the signature; the key determines the algorithm, never the
//! token.

use k3_api::{base64, strategy::Tree};
use serde_json::Value;

use super::keys::PublicKey;

/// Tokens of this length are not ours.
const MAX_BYTES: usize = 128 * 1024;

/// A token that has been taken apart, and not been verified.
pub(super) struct Jwt<'t> {
    /// The head and the claims, as they are signed.
    signed: &'t str,
    head: Value,
    claims: Value,
    signature: Vec<u8>,
}

/// Why a token is not verified, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JwtError {
    /// None of the keys is the one that it names.
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    BadSignature,
}

// --- Jwt ---

impl<'t> Jwt<'t> {
    /// Parses a token; `None` if it is not a JWT.
    // upstream: pkg/serviceaccount/jwt.go hasCorrectIssuer, AuthenticateToken
    pub(super) fn read(token: &'t str) -> Option<Self> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (head, claims) = signed.split_once('.')?;
        let json = |part: &str| -> Option<Value> {
            let value: Value = serde_json::from_slice(&decode(part)?).ok()?;
            value.is_object().then_some(value)
        };
        Some(Jwt {
            signed,
            claims: json(claims)?,
            head: json(head)?,
            signature: decode(signature)?,
        })
    }

    /// The issuer claim, unverified.
    pub(super) fn issuer(&self) -> &str {
        self.claims.text("iss")
    }

    /// The claims, if one of the keys signed them.
    pub(super) fn verify(self, keys: &[PublicKey]) -> Result<Value, JwtError> {
        let wanted = self.head.text("kid");
        let mut candidates = keys
            .iter()
            .filter(|key| wanted.is_empty() || key.id() == wanted)
            .peekable();
        if candidates.peek().is_none() {
            return Err(JwtError::NoKey);
        }
        // What must be understood, and is not.
        let is_plain = !self.head.has("crit");
        let algorithm = self.head.text("alg");
        let mut verified =
            candidates.map(|key| key.verifies(algorithm, self.signed.as_bytes(), &self.signature));
        if is_plain && verified.any(|verified| verified) {
            Ok(self.claims)
        } else {
            Err(JwtError::BadSignature)
        }
    }
}

/// Decodes base64url strictly: only the canonical encoding is accepted.
fn decode(part: &str) -> Option<Vec<u8>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !part.bytes().all(is_plain) {
        return None;
    }
    base64::decode_url(part).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::keys::tests::signer, *};

    fn forged(head: &Value, claims: &Value, signature: &[u8]) -> String {
        let part = |value: &Value| base64::encode_url(value.to_string().as_bytes());
        format!(
            "{}.{}.{}",
            part(head),
            part(claims),
            base64::encode_url(signature)
        )
    }

    fn verify(token: &str, keys: &[PublicKey]) -> Result<Value, JwtError> {
        Jwt::read(token).unwrap().verify(keys)
    }

    #[test]
    fn verifies_with_any_known_key() {
        let old = signer();
        let new = signer();
        let stranger = signer();
        let keys = [new.public().clone(), old.public().clone()];
        let claims = json!({"iss": "me"});
        assert_eq!(verify(&old.sign(&claims), &keys), Ok(claims.clone()));
        assert_eq!(verify(&new.sign(&claims), &keys), Ok(claims.clone()));
        assert_eq!(verify(&stranger.sign(&claims), &keys), Err(JwtError::NoKey));
    }

    #[test]
    fn token_cannot_choose_algorithm() {
        let signer = signer();
        let keys = [signer.public().clone()];
        let claims = json!({"iss": "me"});
        let good = signer.sign(&claims);
        let signature = decode(good.rsplit('.').next().unwrap()).unwrap();
        // The public key as a shared secret, the oldest trick there is.
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, keys[0].bytes());
        let symmetric = json!({"alg": "HS256"});
        let text = forged(&symmetric, &claims, &[]);
        let mac = ring::hmac::sign(&secret, text.trim_end_matches('.').as_bytes());
        for (head, signature) in [
            (json!({"alg": "none"}), &[][..]),
            (json!({"alg": "None"}), &[]),
            (json!({}), &[]),
            (symmetric, mac.as_ref()),
            (json!({"alg": "ES384"}), &signature),
            (json!({"alg": "RS256"}), &signature),
            (json!({"alg": "ES256"}), &[]),
            (json!({"alg": "ES256"}), &[0; 64]),
            // A good signature, of another text.
            (json!({"alg": "ES256"}), &signature),
        ] {
            let token = forged(&head, &claims, signature);
            assert_eq!(verify(&token, &keys), Err(JwtError::BadSignature), "{head}");
        }
    }

    #[test]
    fn rejects_modified_token() {
        let signer = signer();
        let keys = [signer.public().clone()];
        let good = signer.sign(&json!({"sub": "a"}));
        let (head, rest) = good.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let claims = base64::encode_url(br#"{"sub":"b"}"#);
        assert!(verify(&good, &keys).is_ok());
        assert!(verify(&format!("{head}.{claims}.{signature}"), &keys).is_err());
    }

    #[test]
    fn ignores_other_formats() {
        let good = signer().sign(&json!({}));
        let long = format!("{good}{}", "A".repeat(MAX_BYTES));
        for text in [
            "",
            "a",
            "a.b",
            "..",
            "a.b.c.d",
            "e30.e30",
            "e30.e30.!",
            "e30.W10.",
            "e30=.e30.",
            &long,
        ] {
            assert!(Jwt::read(text).is_none(), "{text}");
        }
        let deep = base64::encode_url("[".repeat(50_000).as_bytes());
        assert!(Jwt::read(&format!("e30.{deep}.")).is_none());
    }
}
