//! Updates of a Job spec: which fields are mutable, and when.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::{condition_status, core::pod, go_values, immutable, pod_template},
    strategy::{ErrorList, Tree, TreeMut},
};

/// Validates the changes of an update, beside the new spec itself.
// upstream: pkg/apis/batch/validation/validation.go ValidateJobSpecUpdate
pub(super) fn validate_job_spec_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let spec = new.at("spec");
    let before = old.at("spec");
    let at = Path::new("spec");
    validate_completions_update(spec, before, &at, errors);
    immutable::validate_immutable_selector(spec, before, &at, errors);
    validate_pod_template_update(spec, old, &at, errors);
    let policy = |name: &str, ty: &str, errors: &mut ErrorList| {
        if spec.at(name) != before.at(name) {
            let spec_value = go_values::internal_value("batch", ty, spec.at(name));
            errors.push(Error::invalid(&at.child(name), spec_value, immutable::IMMUTABLE));
        }
    };
    immutable::validate_immutable_fields(spec, before, &["completionMode"], &at, errors);
    policy("podFailurePolicy", "PodFailurePolicy", errors);
    immutable::validate_immutable_fields(spec, before, &["backoffLimitPerIndex", "managedBy"], &at, errors);
    policy("successPolicy", "SuccessPolicy", errors);
}

/// An Indexed job may change completions together with an equal parallelism (elastic indexed jobs, KEP-3715).
// upstream: pkg/apis/batch/validation/validation.go validateCompletions
fn validate_completions_update(spec: &Value, before: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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

/// Scheduling directives and resources are mutable while a job is suspended and has no pods (KEP-2926).
// upstream: pkg/registry/batch/job/strategy.go shouldAllowMutablePodTemplate
fn should_allow_mutable_pod_template(job: &Value) -> bool {
    let status = job.at("status");
    let idle = !status.has("startTime")
        || condition_status::is_condition_true(status.items("conditions"), "Suspended");
    job.at("spec").flag("suspend") && idle && status.int_or_zero("active") == 0
}

// upstream: pkg/apis/batch/validation/validation.go validatePodTemplateUpdate, validatePodResourceUpdatesOnly
fn validate_pod_template_update(spec: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let template = spec.at("template");
    let before = old.at("spec").at("template");
    if template == before {
        return;
    }
    if !should_allow_mutable_pod_template(old) {
        let template_value = pod_template::error_value(template);
        errors.push(Error::invalid(
            &at.child("template"),
            template_value,
            immutable::IMMUTABLE,
        ));
        return;
    }
    let pod = template.at("spec");
    let mut allowed = before.at("spec").clone();
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        allowed.copy_from(name, pod);
    }
    allow_node_affinity_change(pod, &mut allowed);
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
        let pod_value = pod::internal_value("PodSpec", pod);
        errors.push(Error::invalid(
            &at.child("template.spec"),
            pod_value,
            immutable::IMMUTABLE,
        ));
    }
}

/// Node affinity is mutable; the affinity struct may be added or removed along with it.
// upstream: pkg/apis/batch/validation/validation.go validatePodTemplateUpdate
fn allow_node_affinity_change(pod: &Value, allowed: &mut Value) {
    let node = pod.at("affinity").at("nodeAffinity");
    if !pod.has("affinity") && !allowed.has("affinity") {
        return;
    }
    let affinity = allowed.ensure_object("affinity");
    if node.is_null() {
        affinity.remove("nodeAffinity");
    } else {
        affinity.set("nodeAffinity", node.clone());
    }
    if !pod.has("affinity") && affinity.as_object().is_some_and(serde_json::Map::is_empty) {
        allowed.remove("affinity");
    }
}
