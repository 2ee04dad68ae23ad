//! `PodSecurity` (KEP-2579): enforces the Pod Security Standard (privileged, baseline, restricted) set by the labels of a
//! namespace.
//!
//! ```text
//! policy     what the labels of a namespace ask for
//! checks     what pods must not do, by level and version
//! violation  what a pod does wrong, and who in it, in words
//! existing   the pods of a namespace that asks for more than before
//! ```
//!
//! Promises: a pod that breaks what its namespace enforces is refused, when it is made and when its images change. Templates of
//! pods are never refused; who makes them is warned.

mod checks;
mod existing;
mod policy;
#[cfg(test)]
mod tests;
mod violation;

use k3_api::{
    field, go,
    selector::label::Labels as _,
    status::{GroupResource, Status},
    strategy::Tree,
};
use serde_json::Value;

use self::{
    policy::{LevelVersion, NamespacePodSecurity, PodSecurityLevel},
    violation::{Pod, Violation},
};
use super::{AdmissionAttributes, AdmissionPlugin, Operation, resource};
use crate::cache::WatchCaches;

/// What notes begin with.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// Parts of pods that do not change what runs.
const UNCONCERNED: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Where the templates of pods are.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "template"),
    ("", "replicationcontrollers", "spec.template"),
    ("apps", "replicasets", "spec.template"),
    ("apps", "deployments", "spec.template"),
    ("apps", "statefulsets", "spec.template"),
    ("apps", "daemonsets", "spec.template"),
    ("batch", "jobs", "spec.template"),
    ("batch", "cronjobs", "spec.jobTemplate.spec.template"),
];

pub(super) struct PodSecurity;

impl AdmissionPlugin for PodSecurity {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        if attributes.operation == Operation::Delete {
            return Ok(());
        }
        let kind = &attributes.resource.kind;
        match (&*kind.group, &*kind.plural) {
            ("", "namespaces") if attributes.subresource.is_empty() => namespace(attributes, caches),
            ("", "pods") if !UNCONCERNED.contains(&attributes.subresource) => pod(attributes, caches),
            (group, plural) if attributes.subresource.is_empty() => {
                let mut known = TEMPLATES.iter();
                if let Some((_, _, way)) = known.find(|(of, name, _)| *of == group && *name == plural) {
                    template(attributes, way, caches);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Rejects invalid labels, and warns about existing pods that violate the new enforce policy.
// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go ValidateNamespace
fn namespace(attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
    let of = |namespace: &Value| {
        let labels = namespace.at("metadata").entries("labels");
        NamespacePodSecurity::read(|label| labels.get(label).and_then(Value::as_str))
    };
    let (policy, errors) = of(attributes.object);
    let before = attributes.old.map(of);
    let is_old_error = before.as_ref().is_some_and(|(_, before)| *before == errors);
    let name = attributes.object.at("metadata").text("name");
    if !errors.is_empty() && !is_old_error {
        return Err(Status::invalid(
            GroupResource::new("", "Namespace"),
            name,
            &errors,
        ));
    }
    if let Some((before, _)) = before
        && policy.enforce.asks_more_than(before.enforce)
    {
        let found = existing::warnings(name, policy.enforce, caches);
        attributes.warnings.extend(found);
    }
    Ok(())
}

/// Refuses a pod that breaks what its namespace enforces.
// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go ValidatePod
fn pod(attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
    let Some((policy, errors)) = of_namespace(attributes.namespace, caches) else {
        let why = format!("failed to lookup namespace {}", go::quote(attributes.namespace));
        return Err(Status::internal_error(why));
    };
    if errors.is_empty() && policy.is_privileged() {
        add_audit_annotation(attributes, "enforce-policy", "privileged:latest");
        return Ok(());
    }
    if let Some(old) = attributes.old
        && !changes_images(attributes.object.at("spec"), old.at("spec"))
    {
        return Ok(());
    }
    let pod = Pod::of(attributes.object);
    let enforced = checks::violations(policy.enforce, &pod);
    let said = evaluate(&policy, &pod, Some(&enforced));
    add_audit_annotation(attributes, "enforce-policy", policy.enforce.to_string());
    record_messages(attributes, &errors, said);
    if enforced.is_empty() {
        return Ok(());
    }
    Err(attributes.forbidden(format!(
        "violates PodSecurity \"{}\": {}",
        policy.enforce,
        violation::details(&enforced)
    )))
}

/// Warns of a template that makes pods which break what the namespace warns of.
// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go ValidatePodController
fn template(attributes: &mut AdmissionAttributes<'_>, way: &str, caches: &WatchCaches) {
    let Some((policy, errors)) = of_namespace(attributes.namespace, caches) else {
        let why = format!(
            "failed to lookup namespace {0}: namespaces {0} not found",
            go::quote(attributes.namespace)
        );
        return add_audit_annotation(attributes, "error", why);
    };
    if errors.is_empty()
        && policy.warn.level == PodSecurityLevel::Privileged
        && policy.audit.level == PodSecurityLevel::Privileged
    {
        return;
    }
    let template = attributes.object.at_path(way);
    if template.is_null() {
        return;
    }
    let said = evaluate(&policy, &Pod::of(template), None);
    record_messages(attributes, &errors, said);
}

/// What is noted for the audit log, and what the client is warned of.
#[derive(Default)]
struct EvaluationMessages {
    audit: Option<String>,
    warning: Option<String>,
}

/// What a pod does wrong by the standards that refuse nothing. `enforced` is what it does wrong by the one that does.
fn evaluate(
    policy: &NamespacePodSecurity,
    pod: &Pod<'_>,
    enforced: Option<&Vec<Violation>>,
) -> EvaluationMessages {
    let say = |standard: LevelVersion| {
        let found = match enforced {
            Some(enforced) if standard == policy.enforce => violation::details(enforced),
            _ => violation::details(&checks::violations(standard, pod)),
        };
        (!found.is_empty()).then(|| format!("would violate PodSecurity \"{standard}\": {found}"))
    };
    EvaluationMessages {
        audit: say(policy.audit),
        // Who is refused need not be warned.
        warning: match enforced {
            Some(enforced) if !enforced.is_empty() => None,
            _ => say(policy.warn),
        },
    }
}

fn record_messages(
    attributes: &mut AdmissionAttributes<'_>,
    errors: &[field::Error],
    said: EvaluationMessages,
) {
    if let Some(errors) = field::aggregate(errors) {
        add_audit_annotation(attributes, "error", format!("Failed to parse policy: {errors}"));
    }
    if let Some(violations) = said.audit {
        add_audit_annotation(attributes, "audit-violations", violations);
    }
    attributes.warnings.extend(said.warning);
}

fn add_audit_annotation(attributes: &AdmissionAttributes<'_>, key: &str, text: impl Into<String>) {
    attributes.ctx.notes.add(&format!("{PREFIX}{key}"), text);
}

/// What a namespace asks for, and which of its labels are wrong; `None` if it is not there. Labels are read once for each state
/// of a namespace.
fn of_namespace(name: &str, caches: &WatchCaches) -> Option<(NamespacePodSecurity, Vec<field::Error>)> {
    let namespaces = resource("", "namespaces", caches);
    let namespace = namespaces.cache.get(&namespaces.key("", name).ok()?)?;
    let labels = namespace.labels();
    Some(NamespacePodSecurity::read(|label| labels.get(label)))
}

/// Whether other images run than before, or more containers.
// upstream: staging/src/k8s.io/pod-security-admission/admission/admission.go isSignificantPodUpdate
fn changes_images(new: &Value, old: &Value) -> bool {
    let differ = |list: &str| {
        let new = new.items(list);
        let old = old.items(list);
        new.len() != old.len()
            || new
                .iter()
                .zip(old)
                .any(|(new, old)| new.text("image") != old.text("image"))
    };
    let is_known = |container: &Value| {
        let mut before = old.items("ephemeralContainers").iter();
        before
            .find(|before| before.text("name") == container.text("name"))
            .is_some_and(|before| before.text("image") == container.text("image"))
    };
    differ("containers") || differ("initContainers") || !new.items("ephemeralContainers").iter().all(is_known)
}
