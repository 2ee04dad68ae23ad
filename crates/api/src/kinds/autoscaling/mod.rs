//! The kinds of the `autoscaling` group, one file per kind.
//!
//! Autoscalers are stored as v2; [`conversion`] converts to and from v1. A [`scale`] is the `scale` subresource of a scalable kind.

mod annotation;
pub mod conversion;
mod horizontal_pod_autoscaler;
mod metric;
pub mod scale;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "HorizontalPodAutoscaler" => &horizontal_pod_autoscaler::HorizontalPodAutoscaler,
        "Scale" => &scale::Scale,
        _ => return None,
    })
}
