//! ClusterTrustBundle: X.509 trust anchors (KEP-3257).

use std::{borrow::Cow, collections::BTreeMap};

use k3_pki::{Certificate, pem_blocks};
use serde_json::{Value, json};

use super::signer;
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{ErrorMessages, NameFormat},
    strategy::{Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree},
    time::Time,
};

pub(super) struct ClusterTrustBundle;

const MAX_BUNDLE_BYTES: usize = 1024 * 1024;

const COLUMNS: &[Column] = &[Column::name(), Column::field("SignerName", "spec.signerName")];

// upstream: pkg/registry/certificates/clustertrustbundle/strategy.go strategy
impl RestStrategy for ClusterTrustBundle {
    /// The name is validated with the signer, in `validate`.
    fn name_format(&self) -> NameFormat {
        NameFormat::Any
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidateClusterTrustBundle
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_names(object, errors);
        let spec = Path::new("spec");
        validate_trust_bundle(
            object.at("spec").text("trustBundle"),
            &spec.child("trustBundle"),
            errors,
        );
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidateClusterTrustBundleUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let after = new.at("spec");
        let before = old.at("spec");
        // An unchanged bundle is not parsed again, because parsers change.
        if after.text("trustBundle") == before.text("trustBundle") {
            validate_names(new, errors);
        } else {
            self.validate(new, at, errors);
        }
        let name = after.text("signerName");
        if name != before.text("signerName") {
            let spec = Path::new("spec");
            errors.push(Error::invalid(
                &spec.child("signerName"),
                name,
                field_checks::IMMUTABLE,
            ));
        }
    }

    // upstream: pkg/registry/certificates/clustertrustbundle/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    fn selectable_fields(&self) -> &'static [SelectableField] {
        const FIELDS: &[SelectableField] = &[SelectableField::rule("spec.signerName", |object| {
            Cow::Borrowed(object.at("spec").text("signerName"))
        })];
        FIELDS
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printClusterTrustBundle
    fn row(&self, object: &Value, _: Time) -> Row {
        let signer = match object.at("spec").text("signerName") {
            "" => "<none>",
            signer => signer,
        };
        Row::new(vec![json!(object.at("metadata").text("name")), json!(signer)])
    }
}

/// Validates the name, whose errors precede those of other metadata, and the signer.
// upstream: pkg/apis/certificates/validation/validation.go ValidateClusterTrustBundle
fn validate_names(object: &Value, errors: &mut ErrorList) {
    let metadata = object.at("metadata");
    let field_path = Path::new("metadata");
    let signer = object.at("spec").text("signerName");
    let mut messages = ErrorList::new();
    let prefix = metadata.text("generateName");
    if !prefix.is_empty() {
        let msgs = invalid_name_messages(prefix, signer, |name| NameFormat::Subdomain.prefix(name));
        field_checks::push_invalid(prefix, msgs, &field_path.child("generateName"), &mut messages);
    }
    let name = metadata.text("name");
    let msgs = invalid_name_messages(name, signer, |name| NameFormat::Subdomain.name(name));
    field_checks::push_invalid(name, msgs, &field_path.child("name"), &mut messages);
    errors.prepend(messages);
    if !signer.is_empty() {
        let spec = Path::new("spec");
        signer::validate_signer_name(signer, &spec.child("signerName"), errors);
    }
}

fn invalid_name_messages(name: &str, signer: &str, rule: impl Fn(&str) -> ErrorMessages) -> ErrorMessages {
    if signer.is_empty() {
        if name.contains(':') {
            return vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()];
        }
        return rule(name);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => rule(rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

// upstream: pkg/apis/certificates/validation/validation.go validateTrustBundle
fn validate_trust_bundle(bundle: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if bundle.len() > MAX_BUNDLE_BYTES {
        errors.push(Error::too_long(at, MAX_BUNDLE_BYTES));
        return;
    }
    let mut messages = ErrorList::new();
    let mut push = |detail: String| messages.push(Error::invalid(at, "<value omitted>", detail));
    let blocks = pem_blocks(bundle.as_bytes());
    let mut anchors: BTreeMap<&[u8], Vec<String>> = BTreeMap::new();
    for (index, block) in blocks.iter().enumerate() {
        if block.label != "CERTIFICATE" {
            push(format!("entry {index} has bad block type: {}", block.label));
        } else if block.has_headers {
            push(format!("entry {index} has PEM block headers"));
        } else {
            match Certificate::from_der(&block.bytes) {
                Err(_) => push(format!("entry {index} does not parse as X.509")),
                Ok(certificate) if !certificate.is_authority => {
                    push(format!("entry {index} does not have the CA bit set"));
                }
                Ok(_) => anchors.entry(&block.bytes).or_default().push(index.to_string()),
            }
        }
    }
    if messages.is_empty() {
        let mut push = |detail: String| messages.push(Error::invalid(at, "<value omitted>", detail));
        if anchors.is_empty() {
            push("at least one trust anchor must be provided".to_owned());
        }
        for indices in anchors.values().filter(|indices| indices.len() > 1) {
            push(format!(
                "duplicate trust anchor (indices [{}])",
                indices.join(" ")
            ));
        }
    }
    errors.extend(messages);
}

#[cfg(test)]
mod tests {
    use super::{super::samples, *};

    fn bundle(text: &str) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_trust_bundle(text, &Path::new("b"), &mut errors);
        errors.into_iter().map(|error| error.detail).collect()
    }

    #[test]
    fn rejects_malformed_and_duplicate_trust_anchors() {
        let authority = samples::CA_CERTIFICATE;
        assert_eq!(bundle(authority), [""; 0]);
        assert_eq!(bundle(""), ["at least one trust anchor must be provided"]);
        assert_eq!(
            bundle(&format!("{authority}{authority}")),
            ["duplicate trust anchor (indices [0 1])"]
        );
        assert_eq!(
            bundle(samples::CERTIFICATE_REQUEST),
            ["entry 0 has bad block type: CERTIFICATE REQUEST"]
        );
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(
            bundle(&format!("{authority}{broken}")),
            ["entry 1 does not parse as X.509"]
        );
    }

    #[test]
    fn requires_the_signer_as_name_prefix() {
        let msgs =
            |name, signer| invalid_name_messages(name, signer, |name| NameFormat::Subdomain.name(name));
        assert_eq!(msgs("a.io:s:x", "a.io/s"), [""; 0]);
        assert_eq!(msgs("x", ""), [""; 0]);
        assert_eq!(
            msgs("x", "a.io/s"),
            ["ClusterTrustBundle for signerName a.io/s must be named with prefix a.io:s:"]
        );
        assert_eq!(
            msgs("a:x", ""),
            ["ClusterTrustBundle without signer name must not have \":\" in its name"]
        );
    }
}
