//! The kinds of the `policy` group, one file per kind.

mod eviction;
mod pod_disruption_budget;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "Eviction" => &eviction::Eviction,
        "PodDisruptionBudget" => &pod_disruption_budget::PodDisruptionBudget,
        _ => return None,
    })
}
