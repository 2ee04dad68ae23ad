//! Validation of a JobSpec, in a Job or in the template of a CronJob.

use serde_json::Value;

use super::{MANY_COMPLETIONS, MANY_PARALLEL, policy};
use crate::{
    field::{Error, Path},
    kinds::{core::pod, counts, pod_template},
    name,
    strategy::{ErrorList, Tree},
};

const MAX_MANAGED_BY_LENGTH: usize = 63;
const MAX_PARALLELISM_INDEXED: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;

/// Validates a JobSpec except its selector.
// upstream: pkg/apis/batch/validation/validation.go ValidateJobSpec, validateJobSpec
pub(in crate::kinds::batch) fn validate_job_spec(
    spec: &Value,
    old: Option<&Value>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    counts::validate_nonnegative_fields(spec, &counts, at, errors);
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        errors.push(Error::required(&at.child("backoffLimitPerIndex"), detail));
    }
    if let Some(manager) = spec.at("managedBy").as_str() {
        let field_path = at.child("managedBy");
        errors.extend(name::validate_domain_prefixed_path(&field_path, manager));
        if manager.len() > MAX_MANAGED_BY_LENGTH {
            errors.push(Error::too_long(&field_path, MAX_MANAGED_BY_LENGTH));
        }
    }
    validate_completion_mode(spec, at, errors);
    if spec.has("podFailurePolicy") {
        policy::validate_pod_failure_policy(spec, &at.child("podFailurePolicy"), errors);
    }
    if spec.has("successPolicy") {
        policy::validate_success_policy(spec, &at.child("successPolicy"), errors);
    }
    validate_pod_replacement_policy(spec, &at.child("podReplacementPolicy"), errors);
    let template = at.child("template");
    let options = pod_template::template_validation_options(old);
    pod::validate_pod_template_spec(spec.at("template"), &options, &template, errors);
    validate_restart_policy(spec, &template.child("spec"), errors);
}

// upstream: pkg/apis/batch/validation/validation.go validateJobSpec
fn validate_completion_mode(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match spec.at("completionMode").as_str() {
        Some("Indexed") => validate_indexed(spec, at, errors),
        None | Some("NonIndexed") => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(number) = spec.int(name) {
                    let detail = "requires indexed completion mode";
                    errors.push(Error::invalid(&at.child(name), number, detail));
                }
            }
        }
        Some(other) => errors.push(Error::not_supported(
            &at.child("completionMode"),
            other,
            ["NonIndexed", "Indexed"],
        )),
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateJobSpec
fn validate_indexed(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let completions = spec.int("completions");
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(Error::required(&at.child("completions"), detail));
    }
    let limit = |errors: &mut ErrorList, name: &str, max: i64, bound: &str| {
        if let Some(number) = spec.int(name).filter(|number| *number > max) {
            let detail = format!("must be less than or equal to {bound}");
            errors.push(Error::invalid(&at.child(name), number, detail));
        }
    };
    let bound = format!("{MAX_PARALLELISM_INDEXED} when completion mode is Indexed");
    limit(errors, "parallelism", MAX_PARALLELISM_INDEXED, &bound);
    if let Some(completions) = completions {
        limit(errors, "maxFailedIndexes", completions, "completions");
    }
    limit(
        errors,
        "maxFailedIndexes",
        MAX_FAILED_INDEXES,
        &MAX_FAILED_INDEXES.to_string(),
    );
    if completions > Some(MANY_COMPLETIONS) && spec.has("backoffLimitPerIndex") {
        if !spec.has("maxFailedIndexes") {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.push(Error::required(&at.child("maxFailedIndexes"), detail));
        }
        let bound = format!(
            "{MANY_PARALLEL} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
        );
        limit(errors, "parallelism", MANY_PARALLEL, &bound);
        limit(errors, "maxFailedIndexes", MANY_PARALLEL, &bound);
    }
}

/// With a podFailurePolicy, pods are replaced only when they have failed.
// upstream: pkg/apis/batch/validation/validation.go validatePodReplacementPolicy
fn validate_pod_replacement_policy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let supported: &[&str] = if spec.has("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if let Some(policy) = spec.at("podReplacementPolicy").as_str()
        && !supported.contains(&policy)
    {
        errors.push(Error::not_supported(at, policy, supported));
    }
}

/// Pods that run to completion cannot have restartPolicy Always.
// upstream: pkg/apis/batch/validation/validation.go validateJobSpec
fn validate_restart_policy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("restartPolicy");
    match spec.at("template").at("spec").text("restartPolicy") {
        "" | "Always" => {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(Error::required(&field_path, detail));
        }
        "OnFailure" if spec.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(Error::invalid(&field_path, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(Error::not_supported(&field_path, other, ["OnFailure", "Never"])),
    }
}
