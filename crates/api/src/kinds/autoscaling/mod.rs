//! The kinds of the `autoscaling` group, a file each.
//!
//! Autoscalers are kept in version 2; [`conversion`] makes the first version of them, and back. A [`scale`] is a view
//! of what can be scaled.

mod annotation;
pub mod conversion;
mod horizontal_pod_autoscaler;
mod metric;
pub mod scale;

use crate::strategy::RestStrategy;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "HorizontalPodAutoscaler" => &horizontal_pod_autoscaler::HorizontalPodAutoscaler,
        "Scale" => &scale::Scale,
        _ => return None,
    })
}
