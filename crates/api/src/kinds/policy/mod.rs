//! The kinds of the `policy` group, a file each.

mod eviction;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Eviction" => &eviction::Eviction,
        _ => return None,
    })
}
