//! Bundles of certificates that a webhook is trusted by.

use k3_pki::{Certificate, pem_blocks};
use serde_json::Value;

use crate::{
    base64,
    field::{Error, Path},
    rules::Errors,
};

/// What is wrong with a bundle. One certificate that can be read is enough.
pub(super) fn validate(bundle: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(msg) = msg(bundle.as_str().unwrap_or_default()) {
        let detail = format!("unable to load root certificates: {msg}");
        errors.push(Error::invalid(at, bundle, detail));
    }
}

/// Whether there is a bundle with something wrong.
pub fn is_bad(bundle: &Value) -> bool {
    bundle
        .as_str()
        .is_some_and(|text| !text.is_empty() && msg(text).is_some())
}

// upstream: staging/src/k8s.io/client-go/transport/transport.go createErrorParsingCAData
fn msg(text: &str) -> Option<String> {
    let blocks = pem_blocks(&base64::decode(text).unwrap_or_default());
    if blocks.is_empty() {
        return Some("unable to parse bytes as PEM block".to_owned());
    }
    let blocks = blocks
        .iter()
        .filter(|block| block.label == "CERTIFICATE" && !block.has_headers);
    let mut msg = None;
    for block in blocks {
        match Certificate::from_der(&block.bytes) {
            Ok(_) => return None,
            Err(error) => msg = msg.or(Some(format!("failed to parse certificate: {error}"))),
        }
    }
    msg.or_else(|| Some("no valid certificate authority data seen".to_owned()))
}
