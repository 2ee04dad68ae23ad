//! podFailurePolicy (KEP-3329) and successPolicy (KEP-3998) of a job.

use serde_json::Value;

use super::indexes;
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{counts, field_checks, go_values},
    name,
    strategy::{ErrorList, Tree},
};

const MAX_RULES: usize = 20;
const MAX_PATTERNS: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEXES: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

// upstream: pkg/apis/batch/validation/validation.go validatePodFailurePolicy
pub(super) fn validate_pod_failure_policy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rules = spec.at("podFailurePolicy").items("rules");
    let field_path = at.child("rules");
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(&field_path, Some(rules.len()), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let field_path = field_path.index(index);
        validate_pod_failure_policy_rule(rule, spec, &field_path, errors);
    }
}

// upstream: pkg/apis/batch/validation/validation.go validatePodFailurePolicyRule
fn validate_pod_failure_policy_rule(rule: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("action");
    match rule.text("action") {
        "FailIndex" if !spec.has("backoffLimitPerIndex") => {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.push(Error::invalid(&field_path, "FailIndex", detail));
        }
        action => require_supported(action, &ACTIONS, &field_path, errors),
    }
    let codes = rule.at("onExitCodes");
    let conditions = rule.items("onPodConditions");
    if !codes.is_null() {
        validate_on_exit_codes(codes, spec, &at.child("onExitCodes"), errors);
    }
    let field_path = at.child("onPodConditions");
    if conditions.len() > MAX_PATTERNS {
        errors.push(Error::too_many(&field_path, Some(conditions.len()), MAX_PATTERNS));
    }
    for (index, pattern) in conditions.iter().enumerate() {
        let field_path = field_path.index(index);
        let kind = pattern.text("type");
        let kind_at = field_path.child("type");
        let msgs = name::validate_label_key(kind).into_iter();
        errors.extend(msgs.map(|msg| Error::invalid(&kind_at, kind, msg)));
        require_supported(
            pattern.text("status"),
            &STATUSES,
            &field_path.child("status"),
            errors,
        );
    }
    let detail = match (codes.is_null(), conditions.is_empty()) {
        (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(Error::invalid(at, BadValue::Omitted, detail));
}

// upstream: pkg/apis/batch/validation/validation.go validatePodFailurePolicyRuleOnExitCodes
fn validate_on_exit_codes(codes: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let operator = codes.text("operator");
    require_supported(operator, &OPERATORS, &at.child("operator"), errors);
    if let Some(container) = codes.at("containerName").as_str() {
        let pod = spec.at("template").at("spec");
        let named = |list: &str| {
            pod.items(list)
                .iter()
                .any(|container_spec| container_spec.text("name") == container)
        };
        if !named("containers") && !named("initContainers") {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.push(Error::invalid(&at.child("containerName"), container, detail));
        }
    }
    let values = codes.items("values");
    let field_path = at.child("values");
    if values.is_empty() {
        let detail = "at least one value is required";
        errors.push(Error::invalid(&field_path, codes.at("values"), detail));
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(Error::too_many(&field_path, Some(values.len()), MAX_EXIT_CODES));
    }
    let values: Vec<_> = values.iter().filter_map(Value::as_i64).collect();
    let repeated = field_checks::duplicate_flags(&values);
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            let detail = "must not be 0 for the In operator";
            errors.push(Error::invalid(&field_path.index(index), *value, detail));
        }
        if repeated[index] {
            errors.push(Error::duplicate(&field_path.index(index), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(Error::invalid(&field_path, codes.at("values"), "must be ordered"));
    }
}

/// Requires a supported value; the messages list the supported ones.
fn require_supported(value: &str, supported: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        let quoted: Vec<_> = supported.iter().map(|value| go::quote(value)).collect();
        let detail = format!("valid values: [{}]", quoted.join(" "));
        errors.push(Error::required(at, detail));
    } else if !supported.contains(&value) {
        errors.push(Error::not_supported(at, value, supported));
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateSuccessPolicy
pub(super) fn validate_success_policy(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let policy = spec.at("successPolicy");
    if spec.text("completionMode") != "Indexed" {
        let detail = "requires indexed completion mode";
        errors.push(Error::invalid(
            at,
            go_values::internal_value("batch", "SuccessPolicy", policy),
            detail,
        ));
        return;
    }
    let rules = policy.items("rules");
    let field_path = at.child("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Error::required(&field_path, detail));
    }
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(&field_path, Some(rules.len()), MAX_RULES));
    }
    let completions = spec.int_or_zero("completions");
    for (index, rule) in rules.iter().enumerate() {
        validate_success_policy_rule(rule, completions, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/batch/validation/validation.go validateSuccessPolicyRule
fn validate_success_policy_rule(rule: &Value, completions: i64, at: &Path<'_>, errors: &mut ErrorList) {
    let listed = rule.at("succeededIndexes").as_str();
    let count = rule.int("succeededCount");
    if listed.is_none() && count.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(at, detail));
    }
    let mut total = 0;
    if let Some(listed) = listed {
        let field_path = at.child("succeededIndexes");
        if listed.len() > MAX_INDEXES {
            errors.push(Error::too_long(&field_path, MAX_INDEXES));
        }
        match indexes::count_indexes(listed, completions) {
            Ok(count) => total = count,
            Err(msg) => {
                let detail = format!("error parsing succeededIndexes: {msg}");
                errors.push(Error::invalid(&field_path, listed, detail));
            }
        }
    }
    counts::validate_nonnegative_fields(rule, &["succeededCount"], at, errors);
    let Some(count) = count else { return };
    let mut limit = |max: i64, what: &str| {
        if count > max {
            let detail = format!("must be less than or equal to {max} (the number of {what})");
            errors.push(Error::invalid(&at.child("succeededCount"), count, detail));
        }
    };
    limit(completions, "specified completions");
    if listed.is_some() {
        limit(total, "indexes in the specified succeededIndexes field");
    }
}
