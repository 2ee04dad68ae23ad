//! The metadata in a write of the status: what a client says of it does not count.

use serde_json::Value;

use crate::rules::{Tree, TreeMut};

/// Gives the metadata back what a write of the status cannot change.
pub(super) fn keep(new: &mut Value, old: &Value) {
    let before = old.at("metadata");
    let metadata = new.make("metadata");
    for name in [
        "deletionTimestamp",
        "generation",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        metadata.copy_from(name, before);
    }
}
