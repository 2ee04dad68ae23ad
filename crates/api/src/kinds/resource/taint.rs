//! Device taints, and tolerations of requests.

use serde_json::Value;

use super::declarative;
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    strategy::{ErrorList, Tree, TreeMut},
    time::Time,
};

/// In the order of error messages.
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const OPERATORS: [&str; 2] = ["Equal", "Exists"];

/// Sets `timeAdded` of a taint that has none.
// upstream: pkg/apis/resource/v1/defaults.go SetDefaults_DeviceTaint
pub(super) fn set_time_added(taint: &mut Value, now: Time) {
    taint.set_default("timeAdded", now.truncated().to_string());
}

/// Defaults the operator of the tolerations of a request or result.
// upstream: staging/src/k8s.io/api/resource/v1/types.go DeviceToleration; the +default marker of the operator
pub(super) fn set_defaults_tolerations(holder: &mut Value) {
    for toleration in holder.items_mut("tolerations") {
        toleration.set_default("operator", "Equal");
    }
}

/// Hand-written validation of a taint.
// upstream: pkg/apis/resource/validation/validation.go validateDeviceTaint
pub(super) fn validate_device_taint(taint: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::validate_qualified_name(taint.text("key"), &at.child("key"), errors);
    let value = taint.text("value");
    field_checks::push_invalid(
        value,
        name::validate_label_value(value),
        &at.child("value"),
        errors,
    );
}

/// Declarative validation of a taint.
pub(super) fn validate_declaratively_taint(taint: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    declarative::validate_required_enum(taint, "effect", &EFFECTS, at, errors);
}

/// Hand-written validation of tolerations.
// upstream: pkg/apis/resource/validation/validation.go validateDeviceToleration
pub(super) fn validate_tolerations(holder: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("tolerations");
    for (index, toleration) in holder.items("tolerations").iter().enumerate() {
        let field_path = field_path.index(index);
        let field_path = field_path.child("value");
        let value = toleration.text("value");
        match toleration.text("operator") {
            "Exists" if !value.is_empty() => {
                let detail = "must be empty for operator `Exists`";
                errors.push(Error::invalid(&field_path, value, detail));
            }
            "Equal" => {
                field_checks::push_invalid(value, name::validate_label_value(value), &field_path, errors);
            }
            _ => {}
        }
    }
}

/// Declarative validation of tolerations.
pub(super) fn validate_declaratively_tolerations(holder: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("tolerations");
    for (index, toleration) in holder.items("tolerations").iter().enumerate() {
        let field_path = field_path.index(index);
        let key = toleration.text("key");
        if !key.is_empty() {
            field_checks::validate_qualified_name(key, &field_path.child("key"), errors);
        }
        declarative::validate_required_enum(toleration, "operator", &OPERATORS, &field_path, errors);
        declarative::validate_optional_enum(toleration, "effect", &EFFECTS, &field_path, errors);
    }
}
