//! Requests for certificates: who asks, what for, who approves, and what was issued.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    pem, signer,
    x509::{Certificate, Request},
};
use crate::{
    apply::{FieldSet, managed::Reset},
    base64,
    field::{Error, Path},
    go,
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

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
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

    fn selectable(&self) -> &'static [Selectable] {
        &[Selectable {
            field: "spec.signerName",
            get: |object| Cow::Borrowed(object.at("spec").text("signerName")),
        }]
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let (metadata, spec) = (object.at("metadata"), object.at("spec"));
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

// --- Conditions ---

fn conditions(object: &Value) -> &[Value] {
    object.at("status").items("conditions")
}

fn of_kind<'v>(object: &'v Value, kind: &str) -> impl Iterator<Item = &'v Value> {
    conditions(object)
        .iter()
        .filter(move |condition| condition.text("type") == kind)
}

fn has(object: &Value, kind: &str) -> bool {
    of_kind(object, kind).next().is_some()
}

/// Gives conditions of a kind their old values back, unless some were added or removed: that is refused later.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<_> = of_kind(old, kind).cloned().collect();
    if of_kind(new, kind).count() != before.len() {
        return;
    }
    let Some(status) = new.at_mut("status") else {
        return;
    };
    let after = status.items_mut("conditions").iter_mut();
    let after = after.filter(|condition| condition.text("type") == kind);
    for (condition, before) in after.zip(before) {
        *condition = before;
    }
}

/// Sets the times of conditions that have none.
fn fill_times(new: &mut Value, old: &Value, now: Time) {
    let Some(status) = new.at_mut("status") else {
        return;
    };
    for condition in status.items_mut("conditions") {
        condition.fill("lastUpdateTime", now.to_string());
        let same = conditions(old).iter().find(|before| {
            let alike = |field| before.text(field) == condition.text(field);
            alike("type") && alike("status") && before.has("lastTransitionTime")
        });
        let time = same.map_or_else(
            || Value::String(now.to_string()),
            |before| before.at("lastTransitionTime").clone(),
        );
        condition.fill("lastTransitionTime", time);
    }
}

/// What became of a request, in a word or two.
fn state(object: &Value) -> String {
    let mut state = if has(object, DENIED) {
        DENIED
    } else if has(object, APPROVED) {
        APPROVED
    } else {
        "Pending"
    }
    .to_owned();
    if has(object, FAILED) {
        state.push_str(",Failed");
    }
    if !object.at("status").text("certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

// --- What is wrong ---

/// What is wrong with a request. What the old one has already is taken again.
fn validate_all(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (at, spec) = (Path::new("spec"), object.at("spec"));
    if let Err(fault) = read_request(spec.text("request")) {
        errors.push(Error::invalid(&at.child("request"), spec.at("request"), fault));
    }
    validate_usages(spec, old, &at.child("usages"), errors);
    let (place, name) = (at.child("signerName"), spec.text("signerName"));
    let legacy = old.is_some_and(|old| old.at("spec").text("signerName") == LEGACY_SIGNER);
    if name == LEGACY_SIGNER && !legacy {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid(&place, name, detail));
    } else {
        signer::validate(name, &place, errors);
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
    validate_conditions(object, old, errors);
    let certificate = |object: &'_ Value| object.at("status").text("certificate").to_owned();
    let arbitrary = old.is_some_and(|old| {
        let before = certificate(old);
        before == certificate(object) || read_certificates(&before).is_err()
    });
    if !arbitrary && let Err(fault) = read_certificates(&certificate(object)) {
        let status = Path::new("status");
        let place = status.child("certificate");
        errors.push(Error::invalid(&place, "<certificate data>", fault));
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
    let repeated = |usages: &[&str], index: usize| usages[..index].contains(&usages[index]);
    if !before.iter().any(unknown) {
        for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| unknown(usage)) {
            errors.push(Error::not_supported(&at.index(index), *usage, USAGES));
        }
    }
    if !(0..before.len()).any(|index| repeated(&before, index)) {
        for index in (0..usages.len()).filter(|index| repeated(&usages, *index)) {
            errors.push(Error::duplicate(&at.index(index), usages[index]));
        }
    }
}

fn validate_conditions(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let status = Path::new("status");
    let list = status.child("conditions");
    let kinds = |object: &'_ Value| -> Vec<String> {
        let kinds = conditions(object).iter();
        kinds.map(|condition| condition.text("type").to_owned()).collect()
    };
    let before = old.map(kinds).unwrap_or_default();
    let after = kinds(object);
    let repeated = |kinds: &[String], index: usize| kinds[..index].contains(&kinds[index]);
    let repeats = (0..before.len()).any(|index| repeated(&before, index));
    for (index, condition) in conditions(object).iter().enumerate() {
        let at = list.index(index);
        let kind = condition.text("type");
        if kind.is_empty() && !before.iter().any(String::is_empty) {
            errors.push(Error::required(&at.child("type"), ""));
        }
        let supported: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match condition.text("status") {
            "" => errors.push(Error::required(&at.child("status"), "")),
            value if supported.contains(&value) => {}
            value => errors.push(Error::not_supported(&at.child("status"), value, supported)),
        }
        if !repeats && repeated(&after, index) {
            errors.push(Error::duplicate(&at.child("type"), kind));
        }
    }
}

/// What is wrong with a change through a door.
fn validate_change(new: &Value, old: &Value, door: Door, errors: &mut Errors) {
    validate_all(new, Some(old), errors);
    let status = Path::new("status");
    let (list, certificate) = (status.child("conditions"), status.child("certificate"));
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

fn read_request(text: &str) -> Result<(), String> {
    let bytes = base64::decode(text).unwrap_or_default();
    let block = pem::blocks(&bytes).into_iter().next();
    let block = block.filter(|block| block.kind == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    Request::read(&block.bytes).map(drop)
}

fn read_certificates(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let blocks = pem::blocks(&base64::decode(text).unwrap_or_default());
    for block in &blocks {
        if block.kind != "CERTIFICATE" {
            let kind = go::quote(&block.kind);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {kind}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if Certificate::read_all(&block.bytes)?.is_empty() {
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
