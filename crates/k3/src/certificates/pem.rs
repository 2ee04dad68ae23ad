//! Certificates as text.

use base64::{Engine, engine::general_purpose::STANDARD};

/// A certificate in PEM form.
pub(crate) fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let body: Vec<_> = lines.collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        body.join("\n")
    )
}
