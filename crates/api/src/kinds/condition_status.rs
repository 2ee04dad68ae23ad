//! Lookup of conditions by type and status, whatever other fields they have.

use serde_json::Value;

use crate::strategy::Tree;

// upstream: staging/src/k8s.io/apimachinery/pkg/api/meta/conditions.go IsStatusConditionTrue
pub(super) fn is_condition_true(conditions: &[Value], kind: &str) -> bool {
    has_condition_status(conditions, kind, "True")
}

// upstream: staging/src/k8s.io/apimachinery/pkg/api/meta/conditions.go IsStatusConditionPresentAndEqual
pub(super) fn has_condition_status(conditions: &[Value], kind: &str, status: &str) -> bool {
    conditions
        .iter()
        .any(|one| one.text("type") == kind && one.text("status") == status)
}
