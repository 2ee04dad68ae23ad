//! Which fields nobody comes to own by a write of the status.

use crate::apply::{FieldSet, managed::Reset};

/// Most kinds with a status: the spec. The metadata can be written along with the status.
pub(super) fn spec(subresource: &str) -> Option<Reset> {
    (subresource == "status").then(|| Reset::Fields(FieldSet::of_fields(&[&["spec"]])))
}
