//! Whether conditions of any form are met.

use serde_json::Value;

use crate::strategy::Tree;

/// Whether a condition of this type is met.
pub(super) fn is_true(conditions: &[Value], kind: &str) -> bool {
    has_status(conditions, kind, "True")
}

/// Whether there is a condition of this type and status.
pub(super) fn has_status(conditions: &[Value], kind: &str, status: &str) -> bool {
    conditions
        .iter()
        .any(|one| one.text("type") == kind && one.text("status") == status)
}
