//! The kinds of the core group, a file each.

pub(crate) mod pod;
pub(crate) mod volume;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Pod" => &pod::Pod,
        "PodTemplate" => &pod::PodTemplate,
        _ => return None,
    })
}
