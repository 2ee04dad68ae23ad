//! The kinds of the `autoscaling` group, a file each.

mod scale;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Scale" => &scale::Scale,
        _ => return None,
    })
}
