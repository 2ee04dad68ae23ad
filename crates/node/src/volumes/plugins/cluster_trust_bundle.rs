//! The certificates of ClusterTrustBundles (KEP-3257) as one PEM file.

use std::{collections::BTreeSet, sync::Arc};

use k3_pki::{certificate_to_pem, pem_blocks};
use k8s_openapi::api::{certificates::v1::ClusterTrustBundle, core::v1::ClusterTrustBundleProjection};
use kubecontroller::selector::{LabelSelectorError, label_selector_as_selector};

/// Why a projection selects no certificates.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TrustAnchorsError {
    #[error("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {0:?} not found")]
    NotFound(String),
    #[error("while parsing label selector: {0}")]
    Selector(#[from] LabelSelectorError),
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoMatch,
    #[error("ClusterTrustBundle projection requires either name or signerName to be set")]
    NoSource,
}

/// The certificates that a projection selects, without duplicates.
// upstream: pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go GetTrustAnchorsByName, GetTrustAnchorsBySigner
pub(super) fn trust_anchors(
    bundles: &[Arc<ClusterTrustBundle>],
    source: &ClusterTrustBundleProjection,
) -> Result<String, TrustAnchorsError> {
    let is_optional = source.optional == Some(true);
    let selected: Vec<_> = if let Some(name) = &source.name {
        let named = bundles
            .iter()
            .find(|bundle| bundle.metadata.name.as_ref() == Some(name));
        match named {
            Some(bundle) => vec![bundle],
            None if is_optional => Vec::new(),
            None => return Err(TrustAnchorsError::NotFound(name.clone())),
        }
    } else if let Some(signer) = &source.signer_name {
        // An absent selector selects no bundle, an empty one selects all.
        let selector = source
            .label_selector
            .as_ref()
            .map(label_selector_as_selector)
            .transpose()?;
        let is_selected = |bundle: &&Arc<ClusterTrustBundle>| {
            let labels = bundle.metadata.labels.as_ref();
            bundle.spec.signer_name.as_ref() == Some(signer)
                && selector
                    .as_ref()
                    .is_some_and(|selector| selector.matches(&labels))
        };
        let selected: Vec<_> = bundles.iter().filter(is_selected).collect();
        if selected.is_empty() && !is_optional {
            return Err(TrustAnchorsError::NoMatch);
        }
        selected
    } else {
        return Err(TrustAnchorsError::NoSource);
    };
    let bundle_pems = selected.iter().map(|bundle| bundle.spec.trust_bundle.as_str());
    // Sorted, so that the file changes only if the certificates do.
    let certificates: BTreeSet<_> = bundle_pems.flat_map(decode_certificates).collect();
    Ok(certificates
        .iter()
        .map(|certificate| certificate_to_pem(certificate))
        .collect())
}

/// The certificates of a PEM file, as DER. Ignores text between the blocks.
fn decode_certificates(pem: &str) -> Vec<Vec<u8>> {
    let blocks = pem_blocks(pem.as_bytes()).into_iter();
    let certificates = blocks.filter(|block| block.label == "CERTIFICATE");
    certificates.map(|block| block.bytes).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(name: &str, tier: &str, certificates: &[&[u8]]) -> Arc<ClusterTrustBundle> {
        let blocks: Vec<_> = certificates
            .iter()
            .map(|bytes| format!("# comment\n{}", certificate_to_pem(bytes)))
            .collect();
        let bundle = json!({"metadata": {"name": name, "labels": {"tier": tier}},
            "spec": {"signerName": "acme.example/ca", "trustBundle": blocks.concat()}});
        Arc::new(serde_json::from_value(bundle).unwrap())
    }

    fn anchors(source: Value) -> Result<String, TrustAnchorsError> {
        let long = [7; 100];
        let bundles = [
            bundle("one", "a", &[b"x", &long]),
            bundle("two", "b", &[b"x", b"y"]),
        ];
        let mut source = source;
        source["path"] = json!("ca.pem");
        trust_anchors(&bundles, &serde_json::from_value(source).unwrap())
    }

    #[test]
    fn returns_each_certificate_of_selected_bundles_once() {
        let pem = |certificates: &[&[u8]]| {
            Ok(certificates
                .iter()
                .map(|bytes| certificate_to_pem(bytes))
                .collect::<String>())
        };
        let long = [7; 100];
        assert_eq!(anchors(json!({"name": "two"})), pem(&[b"x", b"y"]));
        let signer = |selector: Value| json!({"signerName": "acme.example/ca", "labelSelector": selector});
        assert_eq!(anchors(signer(json!({}))), pem(&[&long, b"x", b"y"]));
        assert_eq!(
            anchors(signer(json!({"matchLabels": {"tier": "b"}}))),
            pem(&[b"x", b"y"])
        );
        assert_eq!(
            anchors(json!({"signerName": "acme.example/ca", "optional": true})),
            Ok(String::new())
        );
        assert_eq!(
            anchors(json!({"name": "three", "optional": true})),
            Ok(String::new())
        );
    }

    #[test]
    fn rejects_projections_without_certificates() {
        let none = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
        assert_eq!(
            anchors(json!({"signerName": "acme.example/ca"}))
                .unwrap_err()
                .to_string(),
            none
        );
        assert_eq!(
            anchors(json!({"signerName": "other", "labelSelector": {}}))
                .unwrap_err()
                .to_string(),
            none
        );
        let missing =
            "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"three\" not found";
        assert_eq!(
            anchors(json!({"name": "three"})).unwrap_err().to_string(),
            missing
        );
        let neither = "ClusterTrustBundle projection requires either name or signerName to be set";
        assert_eq!(anchors(json!({})).unwrap_err().to_string(), neither);
    }
}
