//! Tolerations of a pod.

use std::collections::HashSet;

use serde_json::Value;

use super::{error_list::ErrorListExt, options::PodValidationOptions};
use crate::{
    field::Path,
    go,
    name::{validate_decimal_integer, validate_label_key, validate_label_value},
    strategy::{ErrorList, Tree},
};

/// Whether tolerations may compare numbers: `Lt` and `Gt`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberOperators {
    Allowed,
    Unsupported,
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

// upstream: pkg/apis/core/validation/validation.go ValidateTolerations
pub(super) fn validate_tolerations(
    tolerations: &[Value],
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(
            toleration,
            if options.allow_comparison_operators {
                NumberOperators::Allowed
            } else {
                NumberOperators::Unsupported
            },
            &at.index(index),
            errors,
        );
    }
}

/// Validates tolerations that a RuntimeClass adds to pods. They cannot compare numbers.
pub(crate) fn validate_runtime_class_tolerations(
    tolerations: &[Value],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, NumberOperators::Unsupported, &at.index(index), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateTaintEffect
fn validate_taint_effect(effect: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !EFFECTS.contains(&effect) {
        errors.unsupported(at, effect, &EFFECTS);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateTolerations
fn validate_toleration(
    toleration: &Value,
    comparison: NumberOperators,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let key = toleration.text("key");
    let operator = toleration.text("operator");
    let value = toleration.text("value");
    let effect = toleration.text("effect");
    if !key.is_empty() {
        errors.push_invalid(&at.child("key"), key, validate_label_key(key));
    }
    let operator_at = at.child("operator");
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&operator_at, operator, detail);
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&at.child("effect"), effect, detail);
    }
    match operator {
        "" | "Equal" => {
            let msgs = validate_label_value(value);
            if !msgs.is_empty() {
                errors.invalid(&operator_at, value, msgs.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                errors.invalid(
                    &operator_at,
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
        }
        "Lt" | "Gt" if comparison == NumberOperators::Allowed => {
            errors.push_invalid(&at.child("value"), value, validate_decimal_integer(value));
            if let Err(error) = value.parse::<i64>() {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                let why = match error.kind() {
                    PosOverflow | NegOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                let detail = format!("strconv.ParseInt: parsing {}: {why}", go::quote(value));
                errors.invalid(&at.child("value"), value, detail);
            }
        }
        "Lt" | "Gt" => errors.unsupported(&operator_at, operator, &["Equal", "Exists", "Lt", "Gt"]),
        _ => errors.unsupported(&operator_at, operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        validate_taint_effect(effect, &at.child("effect"), errors);
    }
}

/// An update may add tolerations, and change tolerationSeconds.
// upstream: pkg/apis/core/validation/validation.go validateOnlyAddedTolerations
pub(super) fn validate_only_added_tolerations(
    new: &Value,
    old: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let new = new.items("tolerations");
    let identity = |toleration: &'_ Value| {
        ["key", "operator", "value", "effect"].map(|field| toleration.at(field).clone())
    };
    let new_tolerations: HashSet<_> = new.iter().map(identity).collect();
    let is_kept = |old: &Value| new_tolerations.contains(&identity(old));
    if !old.items("tolerations").iter().all(is_kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.forbidden(at, detail);
    }
    validate_tolerations(new, options, at, errors);
}
