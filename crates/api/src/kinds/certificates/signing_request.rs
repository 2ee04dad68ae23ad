//! CertificateSigningRequest: the request, its approval and the issued certificate.

mod conditions;

use std::{borrow::Cow, net::IpAddr};

use k3_duration::{Duration, human_duration};
use k3_pki::{AlternativeName, Certificate, CertificateRequest, ParseError, RequestError, pem_blocks};
use serde_json::{Map, Value, json};

use self::conditions::{
    APPROVED, DENIED, FAILED, conditions_of_type, format_csr_state, has_condition,
    populate_condition_timestamps, preserve_condition_instances,
};
use super::signer;
use crate::{
    apply::{FieldSet, managed::ResetFields},
    base64,
    field::{Error, Path},
    go,
    kinds::field_checks,
    name::NameFormat,
    strategy::{
        Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut, age,
        decoded_bytes,
    },
    time::Time,
};

pub(super) struct CertificateSigningRequest;

/// The strategy of the `approval` subresource.
struct CertificateSigningRequestApproval;

/// The endpoint that an update is sent to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpdateEndpoint {
    Object,
    Status,
    Approval,
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MIN_EXPIRATION_SECONDS: i64 = 600;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::age(),
    Column::text(
        "SignerName",
        "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it \
         will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \
         \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \
         \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution \
         of trust for signers happens out of band. You can select on this field using `spec.signerName`.",
    ),
    Column::text("Requestor", "Base64-encoded PKCS#10 CSR data"),
    Column::field("RequestedDuration", "spec.expirationSeconds"),
    Column::text(
        "Condition",
        "Conditions applied to the request, such as approval or denial.",
    ),
];

// upstream: pkg/registry/certificates/certificates/strategy.go csrStrategy
impl RestStrategy for CertificateSigningRequest {
    fn name_format(&self) -> NameFormat {
        NameFormat::Any
    }

    // upstream: pkg/registry/certificates/certificates/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        let spec = object.ensure_object("spec");
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        for (field, value) in [("username", &at.user.name), ("uid", &at.user.uid)] {
            if !value.is_empty() {
                spec.set(field, value.as_str());
            }
        }
        if !at.user.groups.is_empty() {
            spec.set("groups", at.user.groups.clone());
        }
        if !at.user.extra.is_empty() {
            let extra = at.user.extra.iter();
            let extra: Map<_, _> = extra.map(|(key, values)| (key.clone(), json!(values))).collect();
            spec.set("extra", extra);
        }
        object.set("status", Map::new());
    }

    // upstream: pkg/registry/certificates/certificates/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        new.copy_from("status", old);
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        for kind in [APPROVED, DENIED] {
            preserve_condition_instances(new, old, kind);
        }
        populate_condition_timestamps(new, old, at.now);
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidateCertificateSigningRequestCreate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_certificate_signing_request(object, None, errors);
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidateCertificateSigningRequestUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_update_by_endpoint(new, old, UpdateEndpoint::Object, errors);
    }

    // upstream: pkg/apis/certificates/validation/validation.go ValidateCertificateSigningRequestStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        old: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_update_by_endpoint(new, old, UpdateEndpoint::Status, errors);
    }

    fn subresource_strategy(&self, subresource: &str) -> Option<&'static dyn RestStrategy> {
        (subresource == "approval").then_some(&CertificateSigningRequestApproval)
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        let other: &[&str] = match subresource {
            "status" => &["status", "conditions"],
            "approval" => &["status", "certificate"],
            _ => &["status"],
        };
        Some(ResetFields::Fields(FieldSet::of_fields(&[&["spec"], other])))
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    // upstream: pkg/registry/certificates/certificates/strategy.go SelectableFields
    fn selectable_fields(&self) -> &'static [SelectableField] {
        const FIELDS: &[SelectableField] = &[SelectableField::rule("spec.signerName", |object| {
            Cow::Borrowed(object.at("spec").text("signerName"))
        })];
        FIELDS
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printCertificateSigningRequest
    fn row(&self, object: &Value, now: Time) -> Row {
        let metadata = object.at("metadata");
        let spec = object.at("spec");
        let signer = match spec.text("signerName") {
            "" => "<none>",
            signer => signer,
        };
        let duration = match spec.int("expirationSeconds") {
            None => "<none>".to_owned(),
            Some(seconds) => human_duration(Duration::from_seconds(seconds)),
        };
        Row::new(vec![
            json!(metadata.text("name")),
            age(metadata.text("creationTimestamp"), now),
            json!(signer),
            json!(spec.text("username")),
            json!(duration),
            json!(format_csr_state(object)),
        ])
    }
}

impl RestStrategy for CertificateSigningRequestApproval {
    // upstream: pkg/registry/certificates/certificates/strategy.go csrApprovalStrategy
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        populate_condition_timestamps(new, old, at.now);
        let conditions = new.ensure_object("status").remove("conditions");
        new.copy_from("spec", old);
        new.copy_from("status", old);
        let status = new.ensure_object("status");
        match conditions {
            Some(conditions) => status.set("conditions", conditions),
            None => drop(status.remove("conditions")),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_update_by_endpoint(new, old, UpdateEndpoint::Approval, errors);
    }

    fn reset_fields(&self, _: &str) -> Option<ResetFields> {
        CertificateSigningRequest.reset_fields("approval")
    }
}

// --- Validation ---

/// Validates a request. Invalid values that the old request already has are tolerated.
// upstream: pkg/apis/certificates/validation/validation.go validateCertificateSigningRequest, getValidationOptions
fn validate_certificate_signing_request(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let spec = object.at("spec");
    // An unchanged request was parsed on create.
    let read = old.is_some_and(|old| old.at("spec").at("request") == spec.at("request"));
    if !read && let Err(error) = parse_certificate_request(spec.text("request")) {
        errors.push(Error::invalid(
            &at.child("request"),
            spec.at("request"),
            error.to_string(),
        ));
    }
    validate_usages(spec, old, &at.child("usages"), errors);
    let field_path = at.child("signerName");
    let name = spec.text("signerName");
    let legacy = old.is_some_and(|old| old.at("spec").text("signerName") == LEGACY_SIGNER);
    if name == LEGACY_SIGNER && !legacy {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&field_path, name, detail));
    } else {
        signer::validate_signer_name(name, &field_path, errors);
    }
    if let Some(seconds) = spec
        .int("expirationSeconds")
        .filter(|seconds| *seconds < MIN_EXPIRATION_SECONDS)
    {
        errors.push(Error::invalid(
            &at.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        ));
    }
    conditions::validate_conditions(object, old, errors);
    let certificate = |object: &'_ Value| object.at("status").text("certificate").to_owned();
    let arbitrary = old.is_some_and(|old| {
        let before = certificate(old);
        before == certificate(object) || parse_certificates(&before).is_err()
    });
    if !arbitrary && let Err(error) = parse_certificates(&certificate(object)) {
        let status = Path::new("status");
        let field_path = status.child("certificate");
        errors.push(Error::invalid(
            &field_path,
            "<certificate data>",
            error.to_string(),
        ));
    }
}

// upstream: pkg/apis/certificates/validation/validation.go hasUnknownUsage, hasDuplicateUsage
fn validate_usages(spec: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut ErrorList) {
    let usages: Vec<_> = spec.texts("usages").collect();
    let before: Vec<_> = old
        .map(|old| old.at("spec").texts("usages").collect())
        .unwrap_or_default();
    if usages.is_empty() {
        errors.push(Error::required(at, ""));
    }
    let unknown = |usage: &&str| !USAGES.contains(usage);
    if !before.iter().any(unknown) {
        for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| unknown(usage)) {
            errors.push(Error::not_supported(&at.index(index), *usage, USAGES));
        }
    }
    if !field_checks::duplicate_flags(&before).contains(&true) {
        let repeated = field_checks::duplicate_flags(&usages);
        for index in (0..usages.len()).filter(|index| repeated[*index]) {
            errors.push(Error::duplicate(&at.index(index), usages[index]));
        }
    }
}

/// Validates an update through an endpoint.
// upstream: pkg/apis/certificates/validation/validation.go validateCertificateSigningRequestUpdate
fn validate_update_by_endpoint(new: &Value, old: &Value, endpoint: UpdateEndpoint, errors: &mut ErrorList) {
    validate_certificate_signing_request(new, Some(old), errors);
    let status = Path::new("status");
    let list = status.child("conditions");
    let certificate = status.child("certificate");
    let counts = |kind: &str| {
        (
            conditions_of_type(new, kind).count(),
            conditions_of_type(old, kind).count(),
        )
    };
    for kind in [APPROVED, DENIED, FAILED] {
        let (after, before) = counts(kind);
        if after < before {
            let detail = format!("updates may not remove a condition of type {}", go::quote(kind));
            errors.push(Error::forbidden(&list, detail));
        }
    }
    if endpoint != UpdateEndpoint::Approval {
        for kind in [APPROVED, DENIED] {
            let (after, before) = counts(kind);
            if after > before {
                let detail = format!("updates may not add a condition of type {}", go::quote(kind));
                errors.push(Error::forbidden(&list, detail));
            }
        }
    }
    let issued_certificate = |object: &'_ Value| object.at("status").text("certificate").to_owned();
    if issued_certificate(new) != issued_certificate(old) {
        if endpoint != UpdateEndpoint::Status {
            let detail = "updates may not set certificate content";
            errors.push(Error::forbidden(&certificate, detail));
        } else if !issued_certificate(old).is_empty() {
            let detail = "updates may not modify existing certificate content";
            errors.push(Error::forbidden(&certificate, detail));
        }
    }
    let both = |object: &Value| has_condition(object, APPROVED) && has_condition(object, DENIED);
    if both(new) && !both(old) {
        let members = [APPROVED, DENIED].map(|kind| format!("conditions[{{\"type\": \"{kind}\"}}]"));
        let detail = format!("must specify at most one of: `{}`", members.join("`, `"));
        errors.push(Error::invalid(
            &list,
            format!("{{{}}}", members.join(", ")),
            detail,
        ));
    }
}

/// Parses `spec.request` and verifies its signature. Approvers and signers decide on what this returns.
// upstream: pkg/apis/certificates/helpers.go ParseCSR
pub fn parse_certificate_request(text: &str) -> Result<CertificateRequest, RequestError> {
    CertificateRequest::from_pem(&decoded_bytes(text))
}

/// Why `status.certificate` is not a list of certificates, in upstream's words.
#[derive(Debug, thiserror::Error)]
enum CertificatesError {
    #[error("only CERTIFICATE PEM blocks are allowed, found {}", go::quote(.0))]
    Label(String),
    #[error("no PEM block headers are permitted")]
    Headers,
    #[error(transparent)]
    Certificate(#[from] ParseError),
    #[error("found CERTIFICATE PEM block containing 0 certificates")]
    EmptyBlock,
    #[error("must contain at least one CERTIFICATE PEM block")]
    NoBlock,
}

/// Subject and alternative names that `spec.request` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequestInfo {
    /// Common name; may be empty.
    pub common_name: String,
    /// Organizations.
    pub organizations: Vec<String>,
    /// Kinds of the subject alternative names, one entry per name.
    pub names: Vec<SubjectAltNameKind>,
    /// DNS names.
    pub hosts: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// UIDs of the subject.
    pub uids: Vec<String>,
}

/// The kind of a subject alternative name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectAltNameKind {
    /// An email address.
    Mail,
    /// A DNS name.
    Host,
    /// A URI.
    Resource,
    /// An IP address.
    Address,
}

// --- Requested ---

impl From<&CertificateRequest> for CertificateRequestInfo {
    fn from(request: &CertificateRequest) -> Self {
        let identity = request.identity().clone();
        let mut requested = CertificateRequestInfo {
            common_name: identity.common_name,
            organizations: identity.organizations,
            uids: identity.uids,
            ..CertificateRequestInfo::default()
        };
        for name in request.names() {
            requested.names.push(match name {
                AlternativeName::Email(_) => SubjectAltNameKind::Mail,
                AlternativeName::Dns(host) => {
                    requested.hosts.push(host.clone());
                    SubjectAltNameKind::Host
                }
                AlternativeName::Uri(_) => SubjectAltNameKind::Resource,
                AlternativeName::Address(address) => {
                    requested.addresses.push(*address);
                    SubjectAltNameKind::Address
                }
            });
        }
        requested
    }
}

/// `notAfter` of the first certificate of `status.certificate`, if it can be parsed.
pub fn certificate_not_after(certificate: &str) -> Option<Time> {
    let blocks = pem_blocks(&base64::decode(certificate).ok()?);
    let all = Certificate::list_from_der(&blocks.first()?.bytes).ok()?;
    Some(Time::from_unix(all.first()?.not_after, 0))
}

// upstream: pkg/apis/certificates/validation/validation.go validateCertificate
fn parse_certificates(text: &str) -> Result<(), CertificatesError> {
    if text.is_empty() {
        return Ok(());
    }
    let blocks = pem_blocks(&decoded_bytes(text));
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            return Err(CertificatesError::Label(block.label.clone()));
        }
        if block.has_headers {
            return Err(CertificatesError::Headers);
        }
        let read = Certificate::list_from_der(&block.bytes)?;
        if read.is_empty() {
            return Err(CertificatesError::EmptyBlock);
        }
    }
    if blocks.is_empty() {
        return Err(CertificatesError::NoBlock);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
