//! The kinds of the `discovery.k8s.io` group, one file per kind.

mod endpoint_slice;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "EndpointSlice" => &endpoint_slice::EndpointSlice,
        _ => return None,
    })
}
