//! CA bundles of conversion webhooks.

use k3_pki::{Certificate, pem_blocks};
use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, decoded_bytes},
};

/// Validates a bundle: one certificate that can be parsed is enough.
// upstream: staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go ValidateCABundle
pub(super) fn validate_ca_bundle(bundle: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(msg) = invalid_ca_bundle_message(bundle.as_str().unwrap_or_default()) {
        let detail = format!("unable to load root certificates: {msg}");
        errors.push(Error::invalid(at, bundle, detail));
    }
}

/// Whether the bundle is set and invalid.
pub fn is_invalid_ca_bundle(bundle: &Value) -> bool {
    bundle
        .as_str()
        .is_some_and(|text| !text.is_empty() && invalid_ca_bundle_message(text).is_some())
}

// upstream: staging/src/k8s.io/client-go/transport/transport.go createErrorParsingCAData
fn invalid_ca_bundle_message(text: &str) -> Option<String> {
    let blocks = pem_blocks(&decoded_bytes(text));
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
