//! The kinds of the `coordination.k8s.io` group, a file each.

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    let _ = kind;
    None
}
