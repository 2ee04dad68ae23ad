//! Projected volumes.

use std::collections::HashSet;

use serde_json::Value;

use super::files;
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{field_checks, label_selector},
    name::{self, NameFormat},
    selector::label::{InvalidValues, UnknownOperators, validate},
    strategy::{ErrorList, Tree},
};

const CONFLICT: &str = "conflicting duplicate paths";

const KEY_TYPES: [&str; 6] = [
    "RSA3072",
    "RSA4096",
    "ECDSAP256",
    "ECDSAP384",
    "ECDSAP521",
    "ED25519",
];

const SECONDS_IN_A_DAY: i64 = 24 * 60 * 60;

const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Used paths, and the field path of conflicts.
struct UsedPaths<'v, 'p> {
    used: HashSet<&'v str>,
    at: &'p Path<'p>,
}

impl<'v> UsedPaths<'v, '_> {
    fn reserve(&mut self, path: &'v str, path_value: &str, errors: &mut ErrorList) {
        if !self.used.insert(path) {
            errors.push(Error::invalid(self.at, path_value, CONFLICT));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateProjectedVolumeSource, validateProjectionSources
pub(super) fn validate_projected_volume_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    files::validate_default_mode(source, at, errors);
    let field_path = at.child("sources");
    let mut paths = UsedPaths {
        used: HashSet::new(),
        at,
    };
    for (index, projection) in source.items("sources").iter().enumerate() {
        let field_path = field_path.index(index);
        let mut kinds = 0;
        for kind in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let Some(projection) = projection.get(kind).filter(|projection| !projection.is_null()) else {
                continue;
            };
            kinds += 1;
            let field_path = field_path.child(kind);
            match kind {
                "secret" | "configMap" => validate_keyed(projection, &field_path, &mut paths, errors),
                "downwardAPI" => validate_downward_api(projection, &field_path, &mut paths, errors),
                "serviceAccountToken" => validate_token(projection, &field_path, at, errors),
                "clusterTrustBundle" => validate_trust_bundle(projection, &field_path, &mut paths, errors),
                _ => validate_pod_certificate(projection, &field_path, &mut paths, errors),
            }
        }
        if kinds > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(Error::forbidden(&field_path, detail));
        }
    }
}

fn validate_keyed<'v>(
    projection: &'v Value,
    at: &Path<'_>,
    paths: &mut UsedPaths<'v, '_>,
    errors: &mut ErrorList,
) {
    field_checks::require_fields(projection, &["name"], at, errors);
    let field_path = at.child("items");
    for (index, item) in projection.items("items").iter().enumerate() {
        files::validate_key_to_path(item, &field_path.index(index), errors);
        if !item.text("path").is_empty() {
            paths.reserve(item.text("path"), projection.text("name"), errors);
        }
    }
}

fn validate_downward_api<'v>(
    projection: &'v Value,
    at: &Path<'_>,
    paths: &mut UsedPaths<'v, '_>,
    errors: &mut ErrorList,
) {
    for file in projection.items("items") {
        files::validate_downward_api_file(file, at, errors);
        let path = file.text("path");
        if !path.is_empty() {
            paths.reserve(path, path, errors);
        }
    }
}

fn validate_token(projection: &Value, at: &Path<'_>, volume: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("expirationSeconds");
    match projection.int("expirationSeconds") {
        None => errors.push(Error::required(&field_path, "")),
        Some(seconds) if seconds < 10 * 60 => errors.push(Error::invalid(
            &field_path,
            seconds,
            "may not specify a duration less than 10 minutes",
        )),
        Some(seconds) if seconds > 1 << 32 => errors.push(Error::invalid(
            &field_path,
            seconds,
            "may not specify a duration larger than 2^32 seconds",
        )),
        Some(_) => {}
    }
    let field_path = volume.child("path");
    match projection.text("path") {
        "" => errors.push(Error::required(&field_path, "")),
        path => files::validate_local_non_reserved_path(path, &field_path, errors),
    }
    files::validate_user(projection, "user", at, errors);
}

fn validate_trust_bundle<'v>(
    projection: &'v Value,
    at: &Path<'_>,
    paths: &mut UsedPaths<'v, '_>,
    errors: &mut ErrorList,
) {
    let selector = at.child("labelSelector");
    match (projection.has("name"), projection.has("signerName")) {
        (true, true) => errors.push(Error::invalid(
            at,
            BadValue::Printed(trust_bundle_json(projection)),
            "only one of name and signerName may be used",
        )),
        (true, false) => {
            let name = projection.text("name");
            let field_path = at.child("name");
            if name.is_empty() {
                errors.push(Error::required(&field_path, "must be a valid object name"));
            }
            for msg in trust_bundle_name_messages(name) {
                let detail = format!("not a valid clustertrustbundlename: {msg}");
                errors.push(Error::invalid(&field_path, name, detail));
            }
            if projection.has("labelSelector") {
                errors.push(Error::invalid(
                    &selector,
                    label_selector::error_value(projection.at("labelSelector")),
                    "labelSelector must be unset if name is specified",
                ));
            }
        }
        (false, true) => {
            let name = projection.text("signerName");
            let field_path = at.child("signerName");
            if name.is_empty() {
                errors.push(Error::required(&field_path, "must be a valid signer name"));
            }
            validate_signer_name(name, &field_path, errors);
            if projection.has("labelSelector") {
                errors.extend(validate(
                    &selector,
                    projection.at("labelSelector"),
                    InvalidValues::Refused,
                    UnknownOperators::Refused,
                ));
            }
        }
        (false, false) => {
            errors.push(Error::required(at, "either name or signerName must be specified"));
        }
    }
    field_checks::require_fields(projection, &["path"], at, errors);
    files::validate_user(projection, "user", at, errors);
    let path = projection.text("path");
    files::validate_local_non_reserved_path(path, &at.child("path"), errors);
    paths.reserve(path, path, errors);
}

/// The name of a bundle of a signer starts with the signer name.
// upstream: pkg/apis/core/validation/validation.go validateProjectionSources
fn trust_bundle_name_messages(name: &str) -> Vec<String> {
    match name.rsplit_once(':') {
        None => NameFormat::Subdomain.name(name),
        Some(("", _)) => {
            vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()]
        }
        Some((_, own)) => NameFormat::Subdomain.name(own),
    }
}

/// A ClusterTrustBundleProjection as the value of an error: the internal type has no JSON tags.
fn trust_bundle_json(projection: &Value) -> String {
    let text = |name: &str| match projection.at(name) {
        Value::Null => "null".to_owned(),
        value => go::json(value),
    };
    let selector = label_selector::to_go_json(projection.at("labelSelector"));
    format!(
        "{{\"Name\":{},\"SignerName\":{},\"LabelSelector\":{selector},\"Optional\":{},\"Path\":{},\"User\":{}}}",
        text("name"),
        text("signerName"),
        text("optional"),
        go::json_string(projection.text("path")),
        text("user"),
    )
}

fn validate_pod_certificate<'v>(
    projection: &'v Value,
    at: &Path<'_>,
    paths: &mut UsedPaths<'v, '_>,
    errors: &mut ErrorList,
) {
    let signer = projection.text("signerName");
    validate_signer_name(signer, &at.child("signerName"), errors);
    let field_path = at.child("userAnnotations");
    let mut bytes = 0;
    for (key, value) in projection.entries("userAnnotations") {
        errors.extend(name::validate_domain_prefixed_key(
            &field_path,
            &key.to_lowercase(),
        ));
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MAX_ANNOTATIONS_BYTES {
        errors.push(Error::too_long(&field_path, MAX_ANNOTATIONS_BYTES));
    }
    files::validate_user(projection, "user", at, errors);
    field_checks::validate_supported(
        projection.text("keyType"),
        &KEY_TYPES,
        &at.child("keyType"),
        errors,
    );
    let field_path = at.child("maxExpirationSeconds");
    if let Some(seconds) = projection.int("maxExpirationSeconds") {
        let max = if is_kubernetes_signer(signer) {
            SECONDS_IN_A_DAY
        } else {
            91 * SECONDS_IN_A_DAY
        };
        if seconds < 3600 {
            let detail = "if provided, maxExpirationSeconds must be >= 3600";
            errors.push(Error::invalid(&field_path, seconds, detail));
        }
        if seconds > max {
            let detail = format!("if provided, maxExpirationSeconds must be <= {max}");
            errors.push(Error::invalid(&field_path, seconds, detail));
        }
    }
    let mut has_path = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = projection.text(field);
        if !path.is_empty() {
            has_path = true;
            files::validate_local_non_reserved_path(path, &at.child(field), errors);
            paths.reserve(path, path, errors);
        }
    }
    if !has_path {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(Error::required(at, detail));
    }
}

/// Whether a signer name is in the reserved domain `kubernetes.io`.
fn is_kubernetes_signer(signer: &str) -> bool {
    let host = signer.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// A signer name: a domain, a slash, and a path of DNS subdomains.
// upstream: pkg/apis/core/validation/validation.go validateProjectionSources
fn validate_signer_name(signer: &str, at: &Path<'_>, errors: &mut ErrorList) {
    const DOMAIN: usize = 253;
    const WHOLE: usize = DOMAIN + 1 + DOMAIN + 1 + 63;
    if signer.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    let parts = signer.split_once('/').filter(|(_, path)| !path.contains('/'));
    let Some((domain, path)) = parts else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        errors.push(Error::invalid(at, signer, detail));
        return;
    };
    if domain.len() > DOMAIN {
        errors.push(Error::too_long(at, DOMAIN));
    }
    validate_labels(domain, name::validate_dns1123_label, at, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(at, domain, detail));
    }
    validate_labels(path, name::validate_dns1123_subdomain, at, errors);
    if signer.len() > WHOLE {
        errors.push(Error::too_long(at, WHOLE));
    }
}

/// Reports the first malformed label only.
fn validate_labels(
    segment: &str,
    rule: fn(&str) -> name::ErrorMessages,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for label in segment.split('.') {
        let msgs = rule(label);
        if !msgs.is_empty() {
            errors.extend(msgs.into_iter().map(|msg| {
                let detail = format!("validating label {}: {msg}", go::quote(label));
                Error::invalid(at, segment, detail)
            }));
            return;
        }
    }
}
