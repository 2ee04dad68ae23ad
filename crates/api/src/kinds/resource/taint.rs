//! Taints of devices, and the tolerations of requests.

use serde_json::Value;

use super::declared;
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    rules::{Errors, Tree, TreeMut},
    time::Time,
};

/// In the order errors list them.
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

/// A taint that does not say so is there since now.
pub(super) fn date(taint: &mut Value, now: Time) {
    taint.fill("timeAdded", now.truncated().to_string());
}

/// Fills in what was left out of the tolerations of a request or result.
pub(super) fn default_tolerations(of: &mut Value) {
    for toleration in of.items_mut("tolerations") {
        toleration.fill("operator", "Equal");
    }
}

/// What is wrong with a taint, by hand.
pub(super) fn judge(taint: &Value, at: &Path<'_>, errors: &mut Errors) {
    field_checks::validate_qualified_name(taint.text("key"), &at.child("key"), errors);
    let value = taint.text("value");
    field_checks::push_invalid(value, name::label_value(value), &at.child("value"), errors);
}

/// What the type says of a taint.
pub(super) fn declared(taint: &Value, at: &Path<'_>, errors: &mut Errors) {
    declared::required_of(taint, "effect", &EFFECTS, at, errors);
}

/// What is wrong with the tolerations of a request or result, by hand.
pub(super) fn judge_tolerations(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("tolerations");
    for (index, toleration) in of.items("tolerations").iter().enumerate() {
        let field_path = field_path.index(index);
        let field_path = field_path.child("value");
        let value = toleration.text("value");
        match toleration.text("operator") {
            "Exists" if !value.is_empty() => {
                let detail = "must be empty for operator `Exists`";
                errors.push(Error::invalid(&field_path, value, detail));
            }
            "Equal" => field_checks::push_invalid(value, name::label_value(value), &field_path, errors),
            _ => {}
        }
    }
}

/// What the type says of tolerations.
pub(super) fn declared_tolerations(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("tolerations");
    for (index, toleration) in of.items("tolerations").iter().enumerate() {
        let field_path = field_path.index(index);
        let key = toleration.text("key");
        if !key.is_empty() {
            field_checks::validate_qualified_name(key, &field_path.child("key"), errors);
        }
        declared::required_of(toleration, "operator", &OPERATORS, &field_path, errors);
        declared::optional_of(toleration, "effect", &EFFECTS, &field_path, errors);
    }
}
