//! The kinds of the `node.k8s.io` group, one file per kind.

mod runtime_class;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "RuntimeClass" => &runtime_class::RuntimeClass,
        _ => return None,
    })
}
