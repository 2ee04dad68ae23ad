//! What of a job can change.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::{condition_status, core::pod, go_values, immutable, pod_template},
    rules::{Errors, Tree, TreeMut},
};

/// What is wrong with a change of a job, beside what is wrong with the job.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let spec = new.at("spec");
    let before = old.at("spec");
    let at = Path::new("spec");
    completions(spec, before, &at, errors);
    immutable::validate_immutable_selector(spec, before, &at, errors);
    template(spec, before, may_change_template(old), &at, errors);
    let policy = |name: &str, ty: &str, errors: &mut Errors| {
        if spec.at(name) != before.at(name) {
            let shown = go_values::internal_value("batch", ty, spec.at(name));
            errors.push(Error::invalid(&at.child(name), shown, immutable::IMMUTABLE));
        }
    };
    immutable::validate_immutable_fields(spec, before, &["completionMode"], &at, errors);
    policy("podFailurePolicy", "PodFailurePolicy", errors);
    immutable::validate_immutable_fields(spec, before, &["backoffLimitPerIndex", "managedBy"], &at, errors);
    policy("successPolicy", "SuccessPolicy", errors);
}

/// An indexed job can be given other completions, together with as many pods at once.
fn completions(spec: &Value, before: &Value, at: &Path<'_>, errors: &mut Errors) {
    if spec.text("completionMode") != "Indexed" {
        immutable::validate_immutable_fields(spec, before, &["completions"], at, errors);
        return;
    }
    let completions = spec.int("completions");
    if let Some(number) = completions
        && completions != before.int("completions")
        && completions != spec.int("parallelism")
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.push(Error::invalid(&at.child("completions"), number, detail));
    }
}

/// Where pods go, and what they get, can change as long as there are none.
fn may_change_template(job: &Value) -> bool {
    let status = job.at("status");
    let idle = !status.has("startTime")
        || condition_status::is_condition_true(status.items("conditions"), "Suspended");
    job.at("spec").flag("suspend") && idle && status.int("active").unwrap_or_default() == 0
}

fn template(spec: &Value, before: &Value, changeable: bool, at: &Path<'_>, errors: &mut Errors) {
    let template = spec.at("template");
    let before = before.at("template");
    if template == before {
        return;
    }
    if !changeable {
        let shown = pod_template::error_value(template);
        errors.push(Error::invalid(&at.child("template"), shown, immutable::IMMUTABLE));
        return;
    }
    let pod = template.at("spec");
    let mut allowed = before.at("spec").clone();
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        allowed.copy_from(name, pod);
    }
    node_affinity(pod, &mut allowed);
    for list in ["containers", "initContainers"] {
        let containers = pod.items(list);
        let before = allowed.items_mut(list);
        if before.len() == containers.len() {
            for (container, before) in containers.iter().zip(before) {
                if container.text("name") == before.text("name") {
                    before.copy_from("resources", container);
                }
            }
        }
    }
    if *pod != allowed {
        let shown = pod::shown("PodSpec", pod);
        errors.push(Error::invalid(
            &at.child("template.spec"),
            shown,
            immutable::IMMUTABLE,
        ));
    }
}

/// Of the affinity, what is said about nodes may change; it may also come and go with that.
fn node_affinity(pod: &Value, allowed: &mut Value) {
    let node = pod.at("affinity").at("nodeAffinity");
    if !pod.has("affinity") && !allowed.has("affinity") {
        return;
    }
    let affinity = allowed.make("affinity");
    if node.is_null() {
        affinity.remove("nodeAffinity");
    } else {
        affinity.set("nodeAffinity", node.clone());
    }
    if !pod.has("affinity") && affinity.as_object().is_some_and(serde_json::Map::is_empty) {
        allowed.remove("affinity");
    }
}
