//! Numeric status and spec fields: not negative, not greater than another field, never decreasing.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Rejects negative values of these fields, in this order. Absent fields are valid.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/generic.go ValidateNonnegativeField
pub(super) fn validate_nonnegative_fields(
    tree: &Value,
    names: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for name in names {
        if let Some(number) = tree.int(name).filter(|number| *number < 0) {
            errors.push(Error::invalid(&at.child(name), number, NOT_NEGATIVE));
        }
    }
}

/// Rejects values greater than the field `limit`. An absent field counts as 0.
// upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetStatus, ValidateDeploymentStatus
pub(super) fn validate_not_greater_than(
    tree: &Value,
    names: &[&str],
    limit: &str,
    detail: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let max = tree.int_or_zero(limit);
    for name in names {
        let number = tree.int_or_zero(name);
        if number > max {
            errors.push(Error::invalid(&at.child(name), number, detail));
        }
    }
}

/// Rejects a `collisionCount` that decreases or is removed: it seeds the hash in the names of owned objects.
// upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentStatusUpdate, ValidateDaemonSetStatusUpdate
pub(super) fn validate_collision_count(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = "collisionCount";
    let Some(before) = old.int(name) else { return };
    let now = new.int(name);
    if now.is_none_or(|now| now < before) {
        let field_path = at.child(name);
        errors.push(Error::invalid(
            &field_path,
            now.unwrap_or_default(),
            "cannot be decremented",
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_negative_excessive_and_decreasing_counts() {
        let status = json!({"replicas": 1, "ready": 2, "other": -1, "collisionCount": 3});
        let mut errors = ErrorList::new();
        let at = Path::new("status");
        validate_nonnegative_fields(&status, &["other", "replicas", "none"], &at, &mut errors);
        validate_not_greater_than(
            &status,
            &["ready", "other"],
            "replicas",
            "too many",
            &at,
            &mut errors,
        );
        validate_collision_count(&json!({}), &status, &at, &mut errors);
        validate_collision_count(&status, &json!({}), &at, &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "status.other: Invalid value: -1: must be greater than or equal to 0",
                "status.ready: Invalid value: 2: too many",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ]
        );
    }
}
