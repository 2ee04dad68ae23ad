//! The kinds of the `coordination.k8s.io` group, one file per kind.

mod lease;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "Lease" => &lease::Lease,
        _ => return None,
    })
}
