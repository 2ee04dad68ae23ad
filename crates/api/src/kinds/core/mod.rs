//! The kinds of the core group, a file each.

pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
mod replication_controller;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "ReplicationController" => &replication_controller::ReplicationController,
        _ => return None,
    })
}
