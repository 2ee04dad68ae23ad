//! Volumes that bring files of several sources together.

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

/// The most that annotations may weigh together.
const ANNOTATIONS_BYTES: usize = 256 * 1024;

/// The paths that are taken, and the place that is named when one is taken twice.
struct Paths<'v, 'p> {
    taken: HashSet<&'v str>,
    at: &'p Path<'p>,
}

impl<'v> Paths<'v, '_> {
    fn take(&mut self, path: &'v str, shown: &str, errors: &mut ErrorList) {
        if !self.taken.insert(path) {
            errors.push(Error::invalid(self.at, shown, CONFLICT));
        }
    }
}

/// A projected volume.
pub(super) fn projected(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    files::default_mode(source, at, errors);
    let field_path = at.child("sources");
    let mut paths = Paths {
        taken: HashSet::new(),
        at,
    };
    for (index, part) in source.items("sources").iter().enumerate() {
        let field_path = field_path.index(index);
        let mut found = 0;
        for kind in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let Some(part) = part.get(kind).filter(|part| !part.is_null()) else {
                continue;
            };
            found += 1;
            let field_path = field_path.child(kind);
            match kind {
                "secret" | "configMap" => keyed(part, &field_path, &mut paths, errors),
                "downwardAPI" => downward(part, &field_path, &mut paths, errors),
                "serviceAccountToken" => token(part, &field_path, at, errors),
                "clusterTrustBundle" => trust_bundle(part, &field_path, &mut paths, errors),
                _ => certificate(part, &field_path, &mut paths, errors),
            }
        }
        if found > 1 {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(Error::forbidden(&field_path, detail));
        }
    }
}

fn keyed<'v>(part: &'v Value, at: &Path<'_>, paths: &mut Paths<'v, '_>, errors: &mut ErrorList) {
    field_checks::require_fields(part, &["name"], at, errors);
    let field_path = at.child("items");
    for (index, item) in part.items("items").iter().enumerate() {
        files::key_to_path(item, &field_path.index(index), errors);
        if !item.text("path").is_empty() {
            paths.take(item.text("path"), part.text("name"), errors);
        }
    }
}

fn downward<'v>(part: &'v Value, at: &Path<'_>, paths: &mut Paths<'v, '_>, errors: &mut ErrorList) {
    for file in part.items("items") {
        files::downward_file(file, at, errors);
        let path = file.text("path");
        if !path.is_empty() {
            paths.take(path, path, errors);
        }
    }
}

fn token(part: &Value, at: &Path<'_>, volume: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("expirationSeconds");
    match part.int("expirationSeconds") {
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
    match part.text("path") {
        "" => errors.push(Error::required(&field_path, "")),
        path => files::non_reserved_path(path, &field_path, errors),
    }
    files::user(part, "user", at, errors);
}

fn trust_bundle<'v>(part: &'v Value, at: &Path<'_>, paths: &mut Paths<'v, '_>, errors: &mut ErrorList) {
    let selector = at.child("labelSelector");
    match (part.has("name"), part.has("signerName")) {
        (true, true) => errors.push(Error::invalid(
            at,
            BadValue::Printed(printed_bundle(part)),
            "only one of name and signerName may be used",
        )),
        (true, false) => {
            let name = part.text("name");
            let field_path = at.child("name");
            if name.is_empty() {
                errors.push(Error::required(&field_path, "must be a valid object name"));
            }
            for msg in bundle_name(name) {
                let detail = format!("not a valid clustertrustbundlename: {msg}");
                errors.push(Error::invalid(&field_path, name, detail));
            }
            if part.has("labelSelector") {
                errors.push(Error::invalid(
                    &selector,
                    label_selector::error_value(part.at("labelSelector")),
                    "labelSelector must be unset if name is specified",
                ));
            }
        }
        (false, true) => {
            let name = part.text("signerName");
            let field_path = at.child("signerName");
            if name.is_empty() {
                errors.push(Error::required(&field_path, "must be a valid signer name"));
            }
            signer_name(name, &field_path, errors);
            if part.has("labelSelector") {
                errors.extend(validate(
                    &selector,
                    part.at("labelSelector"),
                    InvalidValues::Refused,
                    UnknownOperators::Refused,
                ));
            }
        }
        (false, false) => {
            errors.push(Error::required(at, "either name or signerName must be specified"));
        }
    }
    field_checks::require_fields(part, &["path"], at, errors);
    files::user(part, "user", at, errors);
    let path = part.text("path");
    files::non_reserved_path(path, &at.child("path"), errors);
    paths.take(path, path, errors);
}

/// A bundle of a signer begins with the name of the signer.
fn bundle_name(name: &str) -> Vec<String> {
    match name.rsplit_once(':') {
        None => NameFormat::Subdomain.name(name),
        Some(("", _)) => {
            vec!["ClusterTrustBundle without signer name must not have \":\" in its name".to_owned()]
        }
        Some((_, own)) => NameFormat::Subdomain.name(own),
    }
}

/// A bundle as errors show it: the fields of the internal type, in its order.
fn printed_bundle(part: &Value) -> String {
    let text = |name: &str| match part.at(name) {
        Value::Null => "null".to_owned(),
        value => go::json(value),
    };
    let selector = label_selector::to_go_json(part.at("labelSelector"));
    format!(
        "{{\"Name\":{},\"SignerName\":{},\"LabelSelector\":{selector},\"Optional\":{},\"Path\":{},\"User\":{}}}",
        text("name"),
        text("signerName"),
        text("optional"),
        go::json_string(part.text("path")),
        text("user"),
    )
}

fn certificate<'v>(part: &'v Value, at: &Path<'_>, paths: &mut Paths<'v, '_>, errors: &mut ErrorList) {
    let signer = part.text("signerName");
    signer_name(signer, &at.child("signerName"), errors);
    let field_path = at.child("userAnnotations");
    let mut bytes = 0;
    for (key, value) in part.entries("userAnnotations") {
        errors.extend(name::validate_domain_prefixed_key(
            &field_path,
            &key.to_lowercase(),
        ));
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > ANNOTATIONS_BYTES {
        errors.push(Error::too_long(&field_path, ANNOTATIONS_BYTES));
    }
    files::user(part, "user", at, errors);
    field_checks::validate_supported(part.text("keyType"), &KEY_TYPES, &at.child("keyType"), errors);
    let field_path = at.child("maxExpirationSeconds");
    if let Some(seconds) = part.int("maxExpirationSeconds") {
        let most = if is_kubernetes(signer) {
            SECONDS_IN_A_DAY
        } else {
            91 * SECONDS_IN_A_DAY
        };
        if seconds < 3600 {
            let detail = "if provided, maxExpirationSeconds must be >= 3600";
            errors.push(Error::invalid(&field_path, seconds, detail));
        }
        if seconds > most {
            let detail = format!("if provided, maxExpirationSeconds must be <= {most}");
            errors.push(Error::invalid(&field_path, seconds, detail));
        }
    }
    let mut found = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = part.text(field);
        if !path.is_empty() {
            found = true;
            files::non_reserved_path(path, &at.child(field), errors);
            paths.take(path, path, errors);
        }
    }
    if !found {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(Error::required(at, detail));
    }
}

/// Whether a signer is one of the project's own.
fn is_kubernetes(signer: &str) -> bool {
    let host = signer.split('/').next().unwrap_or_default();
    host == "kubernetes.io" || host.ends_with(".kubernetes.io")
}

/// The name of a signer: a domain, a slash, and a path of domain names.
fn signer_name(signer: &str, at: &Path<'_>, errors: &mut ErrorList) {
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
    labels(domain, name::validate_dns1123_label, at, errors);
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(Error::invalid(at, domain, detail));
    }
    labels(path, name::validate_dns1123_subdomain, at, errors);
    if signer.len() > WHOLE {
        errors.push(Error::too_long(at, WHOLE));
    }
}

/// The faults of the first label that has any.
fn labels(segment: &str, rule: fn(&str) -> name::ErrorMessages, at: &Path<'_>, errors: &mut ErrorList) {
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
