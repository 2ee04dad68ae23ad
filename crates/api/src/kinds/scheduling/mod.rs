//! The kinds of the `scheduling.k8s.io` group, one file per kind.

mod priority_class;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "PriorityClass" => &priority_class::PriorityClass,
        _ => return None,
    })
}
