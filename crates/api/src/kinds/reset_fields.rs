//! Fields that a write of the status does not come to own in managedFields.

use crate::apply::{FieldSet, managed::ResetFields};

/// The reset fields of most kinds with a status: writing the status resets the spec. Metadata can be written with the status.
// upstream: pkg/registry/apps/deployment/strategy.go GetResetFields
pub(super) fn spec_reset_by_status(subresource: &str) -> Option<ResetFields> {
    (subresource == "status").then(|| ResetFields::Fields(FieldSet::of_fields(&[&["spec"]])))
}
