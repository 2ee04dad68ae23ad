//! Cluster trust bundles as a file of certificates.

use std::{collections::BTreeSet, sync::Arc};

use k3_pki::{certificate_to_pem, pem_blocks};
use k8s_openapi::api::{certificates::v1::ClusterTrustBundle, core::v1::ClusterTrustBundleProjection};
use kubecontroller::selector::Selector;

/// The certificates that a projection means, each once. All there are of bundles is passed in.
pub(super) fn certificates(
    all: &[Arc<ClusterTrustBundle>],
    source: &ClusterTrustBundleProjection,
) -> Result<String, String> {
    let is_optional = source.optional == Some(true);
    let meant: Vec<_> = if let Some(name) = &source.name {
        let named = all
            .iter()
            .find(|bundle| bundle.metadata.name.as_ref() == Some(name));
        match named {
            Some(bundle) => vec![bundle],
            None if is_optional => Vec::new(),
            None => {
                let what = "clustertrustbundle.certificates.k8s.io";
                return Err(format!(
                    "while getting ClusterTrustBundle: {what} {name:?} not found"
                ));
            }
        }
    } else if let Some(signer) = &source.signer_name {
        // No selector means none, and an empty one all.
        let selector = source.label_selector.as_ref().map(Selector::try_from).transpose();
        let selector = selector.map_err(|error| format!("while parsing label selector: {error}"))?;
        let is_meant = |bundle: &&Arc<ClusterTrustBundle>| {
            let labels = bundle.metadata.labels.as_ref();
            let label = |name: &str| labels.and_then(|labels| labels.get(name)).map(String::as_str);
            bundle.spec.signer_name.as_ref() == Some(signer)
                && selector.as_ref().is_some_and(|selector| selector.matches(label))
        };
        let meant: Vec<_> = all.iter().filter(is_meant).collect();
        if meant.is_empty() && !is_optional {
            return Err(
                "combination of signerName and labelSelector matched zero ClusterTrustBundles".to_owned(),
            );
        }
        meant
    } else {
        return Err("ClusterTrustBundle projection requires either name or signerName to be set".to_owned());
    };
    let texts = meant.iter().map(|bundle| bundle.spec.trust_bundle.as_str());
    let certificates: BTreeSet<_> = texts.flat_map(decoded).collect();
    Ok(certificates
        .iter()
        .map(|certificate| certificate_to_pem(certificate))
        .collect())
}

/// The certificates in a text. What is between them is for people.
fn decoded(text: &str) -> Vec<Vec<u8>> {
    let blocks = pem_blocks(text.as_bytes()).into_iter();
    let certificates = blocks.filter(|block| block.label == "CERTIFICATE");
    certificates.map(|block| block.bytes).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(name: &str, tier: &str, certificates: &[&[u8]]) -> Arc<ClusterTrustBundle> {
        let text: Vec<_> = certificates
            .iter()
            .map(|bytes| format!("# said\n{}", certificate_to_pem(bytes)))
            .collect();
        let bundle = json!({"metadata": {"name": name, "labels": {"tier": tier}},
            "spec": {"signerName": "acme.example/ca", "trustBundle": text.concat()}});
        Arc::new(serde_json::from_value(bundle).unwrap())
    }

    fn ask(source: Value) -> Result<String, String> {
        let long = [7; 100];
        let all = [
            bundle("one", "a", &[b"x", &long]),
            bundle("two", "b", &[b"x", b"y"]),
        ];
        let mut source = source;
        source["path"] = json!("ca.pem");
        certificates(&all, &serde_json::from_value(source).unwrap())
    }

    #[test]
    fn each_certificate_of_the_bundles_that_are_meant_is_told_once() {
        let of = |certificates: &[&[u8]]| {
            Ok(certificates
                .iter()
                .map(|bytes| certificate_to_pem(bytes))
                .collect::<String>())
        };
        let long = [7; 100];
        assert_eq!(ask(json!({"name": "two"})), of(&[b"x", b"y"]));
        let signer = |selector: Value| json!({"signerName": "acme.example/ca", "labelSelector": selector});
        assert_eq!(ask(signer(json!({}))), of(&[&long, b"x", b"y"]));
        assert_eq!(
            ask(signer(json!({"matchLabels": {"tier": "b"}}))),
            of(&[b"x", b"y"])
        );
        assert_eq!(
            ask(json!({"signerName": "acme.example/ca", "optional": true})),
            Ok(String::new())
        );
        assert_eq!(ask(json!({"name": "three", "optional": true})), Ok(String::new()));
    }

    #[test]
    fn what_means_none_is_told() {
        let none = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
        assert_eq!(ask(json!({"signerName": "acme.example/ca"})).unwrap_err(), none);
        assert_eq!(
            ask(json!({"signerName": "other", "labelSelector": {}})).unwrap_err(),
            none
        );
        let missing =
            "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"three\" not found";
        assert_eq!(ask(json!({"name": "three"})).unwrap_err(), missing);
        let neither = "ClusterTrustBundle projection requires either name or signerName to be set";
        assert_eq!(ask(json!({})).unwrap_err(), neither);
    }
}
