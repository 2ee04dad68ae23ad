//! Which taints of nodes a pod tolerates.

use std::collections::HashSet;

use serde_json::Value;

use super::{options::Options, report::Report};
use crate::{
    field::Path,
    go,
    name::{decimal_integer, label_key, label_value},
    rules::{Errors, Tree},
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// What is wrong with tolerations.
pub(super) fn validate(tolerations: &[Value], options: &Options, at: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        one(
            toleration,
            options.comparing_tolerations,
            &at.index(index),
            errors,
        );
    }
}

/// What is wrong with tolerations that are added to pods. They compare no numbers.
pub(crate) fn validate_added_tolerations(tolerations: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        one(toleration, false, &at.index(index), errors);
    }
}

/// The effect of a taint.
fn validate_effect(effect: &str, at: &Path<'_>, errors: &mut Errors) {
    if !EFFECTS.contains(&effect) {
        errors.unsupported(at, effect, &EFFECTS);
    }
}

fn one(toleration: &Value, compares: bool, at: &Path<'_>, errors: &mut Errors) {
    let key = toleration.text("key");
    let operator = toleration.text("operator");
    let value = toleration.text("value");
    let effect = toleration.text("effect");
    if !key.is_empty() {
        errors.push_invalid(&at.child("key"), key, label_key(key));
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
            let msgs = label_value(value);
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
        "Lt" | "Gt" if compares => {
            errors.push_invalid(&at.child("value"), value, decimal_integer(value));
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
        validate_effect(effect, &at.child("effect"), errors);
    }
}

/// An update may add tolerations, and change how long they hold.
pub(super) fn validate_added(
    new: &Value,
    old: &Value,
    options: &Options,
    at: &Path<'_>,
    errors: &mut Errors,
) {
    let new = new.items("tolerations");
    let identity = |toleration: &'_ Value| {
        ["key", "operator", "value", "effect"].map(|field| toleration.at(field).clone())
    };
    let known: HashSet<_> = new.iter().map(identity).collect();
    let kept = |old: &Value| known.contains(&identity(old));
    if !old.items("tolerations").iter().all(kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.forbidden(at, detail);
    }
    validate(new, options, at, errors);
}
