//! Which fields nobody comes to own by a write of the status.

use crate::apply::{FieldSet, managed::ResetFields};

/// Most kinds with a status: the spec. The metadata can be written along with the status.
pub(super) fn spec(subresource: &str) -> Option<ResetFields> {
    (subresource == "status").then(|| ResetFields::Fields(FieldSet::of_fields(&[&["spec"]])))
}
