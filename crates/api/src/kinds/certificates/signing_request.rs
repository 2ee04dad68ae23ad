//! Requests for certificates: who asks, what for, who approves, and what was issued.

mod conditions;

use std::{borrow::Cow, net::IpAddr};

use k3_pki::{AlternativeName, Certificate, CertificateRequest, pem_blocks};
use serde_json::{Map, Value, json};

use self::conditions::{APPROVED, DENIED, FAILED, fill_times, has, keep_conditions, of_kind, state};
use super::signer;
use crate::{
    apply::{FieldSet, managed::Reset},
    base64,
    field::{Error, Path},
    go,
    kinds::field_checks,
    name::Rule,
    rules::{Circumstances, Column, Errors, Row, Rules, Selectable, Tree, TreeMut, age},
    time::{self, Duration, Time},
};

/// The rules of requests.
pub(super) struct SigningRequest;

/// The rules of their approval.
struct Approval;

/// Which door a change comes through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Door {
    Object,
    Status,
    Approval,
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const LEAST_SECONDS: i64 = 600;

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

impl Rules for SigningRequest {
    fn names(&self) -> Rule {
        Rule::Any
    }

    fn prepare_create(&self, object: &mut Value, at: &Circumstances<'_>) {
        let spec = object.make("spec");
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

    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        new.copy_from("spec", old);
        new.copy_from("status", old);
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, at: &Circumstances<'_>) {
        new.copy_from("spec", old);
        for kind in [APPROVED, DENIED] {
            keep_conditions(new, old, kind);
        }
        fill_times(new, old, at.now);
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_all(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_change(new, old, Door::Object, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_change(new, old, Door::Status, errors);
    }

    fn part(&self, subresource: &str) -> Option<&'static dyn Rules> {
        (subresource == "approval").then_some(&Approval)
    }

    fn reset(&self, subresource: &str) -> Option<Reset> {
        let other: &[&str] = match subresource {
            "status" => &["status", "conditions"],
            "approval" => &["status", "certificate"],
            _ => &["status"],
        };
        Some(Reset::Fields(FieldSet::of_fields(&[&["spec"], other])))
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::rule("spec.signerName", |object| {
            Cow::Borrowed(object.at("spec").text("signerName"))
        })];
        FIELDS
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let metadata = object.at("metadata");
        let spec = object.at("spec");
        let signer = match spec.text("signerName") {
            "" => "<none>",
            signer => signer,
        };
        let duration = match spec.int("expirationSeconds") {
            None => "<none>".to_owned(),
            Some(seconds) => time::age(Duration::from_seconds(seconds)),
        };
        Row::new(vec![
            json!(metadata.text("name")),
            age(metadata.text("creationTimestamp"), now),
            json!(signer),
            json!(spec.text("username")),
            json!(duration),
            json!(state(object)),
        ])
    }
}

impl Rules for Approval {
    fn prepare_update(&self, new: &mut Value, old: &Value, at: &Circumstances<'_>) {
        fill_times(new, old, at.now);
        let conditions = new.make("status").remove("conditions");
        new.copy_from("spec", old);
        new.copy_from("status", old);
        let status = new.make("status");
        match conditions {
            Some(conditions) => status.set("conditions", conditions),
            None => drop(status.remove("conditions")),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate_change(new, old, Door::Approval, errors);
    }

    fn reset(&self, _: &str) -> Option<Reset> {
        SigningRequest.reset("approval")
    }
}

// --- What is wrong ---

/// What is wrong with a request. What the old one has already is taken again.
fn validate_all(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = Path::new("spec");
    let spec = object.at("spec");
    // A request that stays was read when it came.
    let read = old.is_some_and(|old| old.at("spec").at("request") == spec.at("request"));
    if !read && let Err(msg) = read_request(spec.text("request")) {
        errors.push(Error::invalid(&at.child("request"), spec.at("request"), msg));
    }
    validate_usages(spec, old, &at.child("usages"), errors);
    let field_path = at.child("signerName");
    let name = spec.text("signerName");
    let legacy = old.is_some_and(|old| old.at("spec").text("signerName") == LEGACY_SIGNER);
    if name == LEGACY_SIGNER && !legacy {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&field_path, name, detail));
    } else {
        signer::validate(name, &field_path, errors);
    }
    if let Some(seconds) = spec
        .int("expirationSeconds")
        .filter(|seconds| *seconds < LEAST_SECONDS)
    {
        errors.push(Error::invalid(
            &at.child("expirationSeconds"),
            seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        ));
    }
    conditions::validate(object, old, errors);
    let certificate = |object: &'_ Value| object.at("status").text("certificate").to_owned();
    let arbitrary = old.is_some_and(|old| {
        let before = certificate(old);
        before == certificate(object) || read_certificates(&before).is_err()
    });
    if !arbitrary && let Err(msg) = read_certificates(&certificate(object)) {
        let status = Path::new("status");
        let field_path = status.child("certificate");
        errors.push(Error::invalid(&field_path, "<certificate data>", msg));
    }
}

fn validate_usages(spec: &Value, old: Option<&Value>, at: &Path<'_>, errors: &mut Errors) {
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

/// What is wrong with a change through a door.
fn validate_change(new: &Value, old: &Value, door: Door, errors: &mut Errors) {
    validate_all(new, Some(old), errors);
    let status = Path::new("status");
    let list = status.child("conditions");
    let certificate = status.child("certificate");
    let counts = |kind: &str| (of_kind(new, kind).count(), of_kind(old, kind).count());
    for kind in [APPROVED, DENIED, FAILED] {
        let (after, before) = counts(kind);
        if after < before {
            let detail = format!("updates may not remove a condition of type {}", go::quote(kind));
            errors.push(Error::forbidden(&list, detail));
        }
    }
    if door != Door::Approval {
        for kind in [APPROVED, DENIED] {
            let (after, before) = counts(kind);
            if after > before {
                let detail = format!("updates may not add a condition of type {}", go::quote(kind));
                errors.push(Error::forbidden(&list, detail));
            }
        }
    }
    let issued = |object: &'_ Value| object.at("status").text("certificate").to_owned();
    if issued(new) != issued(old) {
        if door != Door::Status {
            let detail = "updates may not set certificate content";
            errors.push(Error::forbidden(&certificate, detail));
        } else if !issued(old).is_empty() {
            let detail = "updates may not modify existing certificate content";
            errors.push(Error::forbidden(&certificate, detail));
        }
    }
    let both = |object: &Value| has(object, APPROVED) && has(object, DENIED);
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

/// Reads a `spec.request` and verifies its signature. Whoever decides about a request decides by what this returns.
pub fn read_request(text: &str) -> Result<CertificateRequest, String> {
    let pem = base64::decode(text).unwrap_or_default();
    CertificateRequest::from_pem(&pem).map_err(|error| error.to_string())
}

/// What the certificate is to say which a `spec.request` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// The common name; empty if it is to have none.
    pub common_name: String,
    /// The organizations.
    pub organizations: Vec<String>,
    /// What the other names are that it is to have, each as often as there are such.
    pub names: Vec<RequestedName>,
    /// Those of them that are hosts.
    pub hosts: Vec<String>,
    /// Those of them that are addresses in the network.
    pub addresses: Vec<IpAddr>,
    /// The uids of the subject.
    pub uids: Vec<String>,
}

/// What sort of name a certificate is to have beside its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedName {
    /// An address of mail.
    Mail,
    /// A host.
    Host,
    /// A resource, by its URI.
    Resource,
    /// An address in the network.
    Address,
}

// --- Requested ---

impl From<&CertificateRequest> for Requested {
    fn from(request: &CertificateRequest) -> Self {
        let identity = request.identity().clone();
        let mut requested = Requested {
            common_name: identity.common_name,
            organizations: identity.organizations,
            uids: identity.uids,
            ..Requested::default()
        };
        for name in request.names() {
            requested.names.push(match name {
                AlternativeName::Email(_) => RequestedName::Mail,
                AlternativeName::Dns(host) => {
                    requested.hosts.push(host.clone());
                    RequestedName::Host
                }
                AlternativeName::Uri(_) => RequestedName::Resource,
                AlternativeName::Address(address) => {
                    requested.addresses.push(*address);
                    RequestedName::Address
                }
            });
        }
        requested
    }
}

/// When the first certificate of a `status.certificate` ends to be valid, if it can be read.
pub fn certificate_end(certificate: &str) -> Option<Time> {
    let blocks = pem_blocks(&base64::decode(certificate).ok()?);
    let all = Certificate::list_from_der(&blocks.first()?.bytes).ok()?;
    Some(Time::from_unix(all.first()?.not_after, 0))
}

fn read_certificates(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let blocks = pem_blocks(&base64::decode(text).unwrap_or_default());
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            let kind = go::quote(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {kind}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        let read = Certificate::list_from_der(&block.bytes).map_err(|error| error.to_string())?;
        if read.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
    }
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
