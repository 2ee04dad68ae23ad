//! The kinds of the `coordination.k8s.io` group, one file per kind.

mod lease;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Lease" => &lease::Lease,
        _ => return None,
    })
}
