//! Bundles of certificates that a webhook is trusted by.

use serde_json::Value;

use crate::{
    base64,
    field::{Error, Path},
    rules::Errors,
};

/// What is wrong with a bundle. Only its form is judged: what no program reads as a certificate.
pub(super) fn validate(bundle: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(fault) = fault(bundle.as_str().unwrap_or_default()) {
        let detail = format!("unable to load root certificates: {fault}");
        errors.push(Error::invalid(at, bundle, detail));
    }
}

/// Whether there is a bundle with something wrong.
pub fn is_bad(bundle: &Value) -> bool {
    bundle
        .as_str()
        .is_some_and(|text| !text.is_empty() && fault(text).is_some())
}

fn fault(text: &str) -> Option<&'static str> {
    let bytes = base64::decode(text).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut blocks = 0;
    for block in text.split("-----BEGIN ").skip(1) {
        let Some((kind, rest)) = block.split_once("-----") else {
            continue;
        };
        let Some((body, _)) = rest.split_once(&format!("-----END {kind}-----")) else {
            continue;
        };
        blocks += 1;
        let body: String = body.split_whitespace().collect();
        let read = base64::decode(&body).is_ok_and(|der| der.first() == Some(&0x30));
        if kind == "CERTIFICATE" && read {
            return None;
        }
    }
    Some(if blocks == 0 {
        "unable to parse bytes as PEM block"
    } else {
        "no valid certificate authority data seen"
    })
}
