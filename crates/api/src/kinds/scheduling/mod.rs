//! The kinds of the `scheduling.k8s.io` group, one file per kind.

mod priority_class;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "PriorityClass" => &priority_class::PriorityClass,
        _ => return None,
    })
}
