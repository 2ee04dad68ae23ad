//! The kinds of the `discovery.k8s.io` group, one file per kind.

mod endpoint_slice;

use crate::rules::Rules;

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "EndpointSlice" => &endpoint_slice::EndpointSlice,
        _ => return None,
    })
}
