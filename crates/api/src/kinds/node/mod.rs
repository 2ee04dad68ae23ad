//! The kinds of the `node.k8s.io` group, one file per kind.

mod runtime_class;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "RuntimeClass" => &runtime_class::RuntimeClass,
        _ => return None,
    })
}
