//! Fields that cannot change once an object exists.

use serde_json::Value;

use super::label_selector;
use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateImmutableField
pub(super) const IMMUTABLE: &str = "field is immutable";

/// Rejects a change of any of these fields, in this order.
pub(super) fn validate_immutable_fields(
    new: &Value,
    old: &Value,
    names: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for name in names {
        if new.at(name) != old.at(name) {
            errors.push(Error::invalid(&at.child(name), new.at(name), IMMUTABLE));
        }
    }
}

/// Rejects a change of the label selector.
// upstream: pkg/apis/apps/validation/validation.go ValidateDeploymentUpdate, ValidateReplicaSetUpdate
pub(super) fn validate_immutable_selector(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = "selector";
    if new.at(name) != old.at(name) {
        errors.push(Error::invalid(
            &at.child(name),
            label_selector::error_value(new.at(name)),
            IMMUTABLE,
        ));
    }
}
