//! What is wrong with the spec of a job, wherever it stands.

use serde_json::Value;

use super::{MANY_AT_ONCE, MANY_COMPLETIONS, policy};
use crate::{
    field::{Error, Path},
    kinds::{core::pod, counts, pod_template},
    name,
    rules::{Errors, Tree},
};

const MAX_MANAGER: usize = 63;
const MAX_AT_ONCE: i64 = 100_000;
const MAX_FAILED: i64 = 100_000;

/// What is wrong with the spec of a job, but for its selector.
pub(in crate::kinds::batch) fn validate(
    spec: &Value,
    old: Option<&Value>,
    at: &Path<'_>,
    errors: &mut Errors,
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
        errors.extend(name::domain_prefixed_path(&field_path, manager));
        if manager.len() > MAX_MANAGER {
            errors.push(Error::too_long(&field_path, MAX_MANAGER));
        }
    }
    completion(spec, at, errors);
    if spec.has("podFailurePolicy") {
        policy::failure(spec, &at.child("podFailurePolicy"), errors);
    }
    if spec.has("successPolicy") {
        policy::success(spec, &at.child("successPolicy"), errors);
    }
    replacement(spec, &at.child("podReplacementPolicy"), errors);
    let template = at.child("template");
    let options = pod_template::template_validation_options(old);
    pod::validate_template_with(spec.at("template"), &options, &template, errors);
    restart(spec, &template.child("spec"), errors);
}

fn completion(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    match spec.at("completionMode").as_str() {
        Some("Indexed") => indexed(spec, at, errors),
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

fn indexed(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let completions = spec.int("completions");
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(Error::required(&at.child("completions"), detail));
    }
    let limit = |errors: &mut Errors, name: &str, most: i64, messages: &str| {
        if let Some(number) = spec.int(name).filter(|number| *number > most) {
            let detail = format!("must be less than or equal to {messages}");
            errors.push(Error::invalid(&at.child(name), number, detail));
        }
    };
    let messages = format!("{MAX_AT_ONCE} when completion mode is Indexed");
    limit(errors, "parallelism", MAX_AT_ONCE, &messages);
    if let Some(completions) = completions {
        limit(errors, "maxFailedIndexes", completions, "completions");
    }
    limit(errors, "maxFailedIndexes", MAX_FAILED, &MAX_FAILED.to_string());
    if completions > Some(MANY_COMPLETIONS) && spec.has("backoffLimitPerIndex") {
        if !spec.has("maxFailedIndexes") {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.push(Error::required(&at.child("maxFailedIndexes"), detail));
        }
        let messages = format!(
            "{MANY_AT_ONCE} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
        );
        limit(errors, "parallelism", MANY_AT_ONCE, &messages);
        limit(errors, "maxFailedIndexes", MANY_AT_ONCE, &messages);
    }
}

/// With a policy for failures, a pod is replaced only when it has failed.
fn replacement(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let known: &[&str] = if spec.has("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if let Some(policy) = spec.at("podReplacementPolicy").as_str()
        && !known.contains(&policy)
    {
        errors.push(Error::not_supported(at, policy, known));
    }
}

/// Pods that are to end cannot be restarted for ever.
fn restart(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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
