//! The kinds of the `coordination.k8s.io` group, a file each.

mod lease;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Lease" => &lease::Lease,
        _ => return None,
    })
}
