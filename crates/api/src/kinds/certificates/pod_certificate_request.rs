//! PodCertificateRequest: a certificate for a pod, requested by its kubelet (KEP-4317).

mod issued_certificate;

use std::borrow::Cow;

use k3_pki::{CertificateRequest, Curve, KeyKind, RequestError};
use serde_json::{Value, json};

use super::signer;
use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{BadValue, Error, Path},
    kinds::{condition, field_checks, status_meta},
    name,
    strategy::{
        Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut, decoded_bytes,
    },
    time::Time,
};

pub(super) struct PodCertificateRequest;

const MAX_REQUEST_BYTES: usize = 10 * 1024;
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
const MAX_UID_BYTES: usize = 128;
const HOUR: i64 = 60 * 60;
const DAY: i64 = 24 * HOUR;

/// The terminal condition types.
const TERMINAL_CONDITIONS: [&str; 3] = ["Issued", "Denied", "Failed"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("PodName", "spec.podName"),
    Column::field("ServiceAccountName", "spec.serviceAccountName"),
    Column::field("NodeName", "spec.nodeName"),
    Column::field("SignerName", "spec.signerName"),
    Column::text("State", "Is the request Pending, Issued, Denied, or Failed?"),
    Column::field("UnverifiedUserAnnotations", "spec.unverifiedUserAnnotations"),
];

impl RestStrategy for PodCertificateRequest {
    fn set_defaults(&self, object: &mut Value) {
        object
            .ensure_object("spec")
            .set_default("maxExpirationSeconds", DAY);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_pod_certificate_request_spec(object.at("spec"), errors);
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        if new.at("spec") != old.at("spec") {
            let spec_value = BadValue::Printed(spec_json(new.at("spec")));
            errors.push(Error::invalid(
                &Path::new("spec"),
                spec_value,
                field_checks::IMMUTABLE,
            ));
        }
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        if errors.is_empty() {
            validate_status_update(new, old, at.now, errors);
        }
    }

    // upstream: pkg/registry/certificates/podcertificaterequest/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let fields: &[&[&str]] = if subresource.is_empty() {
            &[&["status"]]
        } else {
            &[&["metadata"], &["spec"]]
        };
        Some(ResetFields::Fields(FieldSet::of_fields(fields)))
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    fn selectable_fields(&self) -> &'static [SelectableField] {
        const FIELDS: &[SelectableField] = &[
            SelectableField::rule("spec.signerName", |object| {
                Cow::Borrowed(object.at("spec").text("signerName"))
            }),
            SelectableField::rule("spec.podName", |object| {
                Cow::Borrowed(object.at("spec").text("podName"))
            }),
            SelectableField::rule("spec.nodeName", |object| {
                Cow::Borrowed(object.at("spec").text("nodeName"))
            }),
        ];
        FIELDS
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPodCertificateRequest
    fn row(&self, object: &Value, _: Time) -> Row {
        let spec = object.at("spec");
        let conditions = object.at("status").items("conditions").iter();
        let state = conditions
            .map(|condition| condition.text("type"))
            .rfind(|kind| TERMINAL_CONDITIONS.contains(kind));
        let annotations = spec.entries("unverifiedUserAnnotations").iter();
        let mut annotations: Vec<_> = annotations
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        annotations.sort_unstable();
        if annotations.is_empty() {
            annotations.push("<none>".to_owned());
        }
        let mut cells = vec![json!(object.at("metadata").text("name"))];
        for field in ["podName", "serviceAccountName", "nodeName", "signerName"] {
            cells.push(json!(spec.text(field)));
        }
        cells.push(json!(state.unwrap_or("Pending")));
        cells.push(json!(annotations.join(",")));
        Row::new(cells)
    }
}

// upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestCreate
fn validate_pod_certificate_request_spec(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    signer::validate_signer_name(spec.text("signerName"), &at.child("signerName"), errors);
    validate_annotations(spec, &at.child("unverifiedUserAnnotations"), errors);
    for (name, uid) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        let value = spec.text(name);
        field_checks::push_invalid(
            value,
            name::validate_dns1123_subdomain(value),
            &at.child(name),
            errors,
        );
        let field_path = at.child(uid);
        match spec.text(uid).len() {
            0 => errors.push(Error::invalid(&field_path, "", "must not be empty")),
            length if length > MAX_UID_BYTES => errors.push(Error::too_long(&field_path, MAX_UID_BYTES)),
            _ => {}
        }
    }
    let field_path = at.child("maxExpirationSeconds");
    let Some(seconds) = spec.int("maxExpirationSeconds") else {
        errors.push(Error::required(&field_path, "must be set"));
        return;
    };
    let max = if signer::is_kubernetes_signer(spec.text("signerName")) {
        DAY
    } else {
        91 * DAY
    };
    if !(HOUR..=max).contains(&seconds) {
        let detail = format!("must be in the range [{HOUR}, {max}]");
        errors.push(Error::invalid(&field_path, seconds, detail));
    }
    let request = spec.text("stubPKCS10Request");
    if request.is_empty() {
        let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        errors.push(Error::invalid(&at, BadValue::Omitted, detail));
    } else {
        let bytes = decoded_bytes(request);
        validate_stub_pkcs10_request(&bytes, &at.child("stubPKCS10Request"), errors);
    }
}

fn validate_annotations(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut bytes = 0;
    for (key, value) in spec.entries("unverifiedUserAnnotations") {
        errors.extend(name::validate_domain_prefixed_key(at, &key.to_lowercase()));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > MAX_ANNOTATIONS_BYTES {
        errors.push(Error::too_long(at, MAX_ANNOTATIONS_BYTES));
    }
}

// upstream: pkg/apis/certificates/validation/validation.go validateStubPKCS10Request
fn validate_stub_pkcs10_request(bytes: &[u8], at: &Path<'_>, errors: &mut ErrorList) {
    if bytes.len() > MAX_REQUEST_BYTES {
        errors.push(Error::too_long(at, MAX_REQUEST_BYTES));
        return;
    }
    let request = CertificateRequest::from_der(bytes);
    let key = match &request {
        Ok(request) => request.public_key().kind(),
        Err(RequestError::Signature { key, .. }) => *key,
        Err(_) => {
            errors.push(Error::invalid(
                at,
                BadValue::Omitted,
                "must be a valid PKCS#10 CSR",
            ));
            return;
        }
    };
    errors.extend(match key {
        KeyKind::Ecdsa(Curve::P224) => Some(Error::invalid(
            at,
            "curve P-224",
            "elliptic public keys must use curve P256, P384, or P521",
        )),
        KeyKind::Rsa { bits } if bits != 3072 && bits != 4096 => Some(Error::invalid(
            at,
            format!("{bits}-bit modulus"),
            "RSA keys must have modulus size 3072 or 4096",
        )),
        KeyKind::Unknown => Some(Error::invalid(
            at,
            BadValue::Omitted,
            "unknown public key type; supported types are Ed25519, ECDSA, and RSA",
        )),
        KeyKind::Ed25519 | KeyKind::Ecdsa(_) | KeyKind::Rsa { .. } => request
            .err()
            .map(|_| Error::invalid(at, BadValue::Omitted, "invalid signature")),
    });
}

// --- Status ---

// upstream: pkg/apis/certificates/validation/validation.go pcrIsIssued, pcrIsDenied, pcrIsFailed
fn has_condition(object: &Value, condition_type: &str) -> bool {
    let conditions = object.at("status").items("conditions").iter();
    conditions
        .filter(|condition| condition.text("type") == condition_type)
        .any(|condition| condition.text("status") == "True")
}

// upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestStatusUpdate
fn validate_status_update(new: &Value, old: &Value, now: Time, errors: &mut ErrorList) {
    let at = Path::new("status");
    let status = new.at("status");
    validate_conditions(status.items("conditions"), &at.child("conditions"), errors);
    if !errors.is_empty() {
        return;
    }
    let changed = status != old.at("status");
    let mut reject = |detail: &str| errors.push(Error::invalid(&at, BadValue::Omitted, detail));
    if TERMINAL_CONDITIONS
        .iter()
        .any(|condition_type| has_condition(old, condition_type))
    {
        if changed {
            reject("immutable after PodCertificateRequest is issued, denied, or failed");
        }
    } else if has_condition(new, "Denied") || has_condition(new, "Failed") {
        let fields = status.as_object().into_iter().flatten();
        if fields.into_iter().any(|(name, _)| name != "conditions") {
            reject(
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest",
            );
        }
    } else if has_condition(new, "Issued") {
        errors.extend(issued_certificate::validate_issued_certificate(new, old, now));
    } else if changed {
        reject("status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"");
    }
}

// upstream: pkg/apis/certificates/validation/validation.go ValidatePodCertificateRequestStatusUpdate
fn validate_conditions(conditions: &[Value], list: &Path<'_>, errors: &mut ErrorList) {
    let mut terminal_conditions = 0;
    for (index, condition) in conditions.iter().enumerate() {
        // upstream: pkg/apis/certificates/validation/validation.go formatIndex; the path has a dot before the bracket
        let step = format!("[{index}]");
        let at = list.child(&step);
        let kind = condition.text("type");
        let status = condition.text("status");
        if !TERMINAL_CONDITIONS.contains(&kind) {
            errors.push(Error::not_supported(&at.child("type"), kind, TERMINAL_CONDITIONS));
            continue;
        }
        terminal_conditions += 1;
        if terminal_conditions > 1 {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.push(Error::invalid(&at.child("type"), kind, detail));
        }
        if status != "True" {
            errors.push(Error::not_supported(&at.child("status"), status, ["True"]));
        }
    }
    condition::validate_conditions(conditions, list, errors);
}

/// A spec as the value of an error: the internal type has no JSON tags.
fn spec_json(spec: &Value) -> String {
    let text = |name: &str| crate::go::json(&json!(spec.text(name)));
    let or_null = |name: &str| crate::go::json(spec.at(name));
    format!(
        "{{\"SignerName\":{},\"PodName\":{},\"PodUID\":{},\"ServiceAccountName\":{},\"ServiceAccountUID\":{},\
         \"NodeName\":{},\"NodeUID\":{},\"MaxExpirationSeconds\":{},\"PKIXPublicKey\":null,\"ProofOfPossession\":null,\
         \"StubPKCS10Request\":{},\"UnverifiedUserAnnotations\":{}}}",
        text("signerName"),
        text("podName"),
        text("podUID"),
        text("serviceAccountName"),
        text("serviceAccountUID"),
        text("nodeName"),
        text("nodeUID"),
        or_null("maxExpirationSeconds"),
        or_null("stubPKCS10Request"),
        or_null("unverifiedUserAnnotations"),
    )
}

#[cfg(test)]
mod tests;
