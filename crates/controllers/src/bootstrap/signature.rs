//! A detached JWS signature with a bootstrap token.

use k3_api::base64::encode_url;
use ring::hmac;
use serde_json::json;

/// Signs a text with the secret of a token.
// upstream: pkg/controller/bootstrap/bootstrapsigner.go signConfigMap; the detached JWS is computed in k8s.io/cluster-bootstrap/token/jws
pub(super) fn sign(text: &str, id: &str, secret: &str) -> String {
    let header = encode_url(json!({"alg": "HS256", "kid": id}).to_string().as_bytes());
    let signed = format!("{header}.{}", encode_url(text.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = encode_url(hmac::sign(&key, signed.as_bytes()).as_ref());
    format!("{header}..{signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_upstream() {
        assert_eq!(
            sign("test content", "abcdef", "0123456789abcdef"),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9.._WIz-MgjE2UroQuz2xbhGJhGK9HKdMBU7xhJyaqKI1E"
        );
    }
}
