//! The kinds of the `coordination.k8s.io` group, a file each.

mod lease;

use crate::strategy::RestStrategy;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "Lease" => &lease::Lease,
        _ => return None,
    })
}
