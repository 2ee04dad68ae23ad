//! The kinds of the `flowcontrol.apiserver.k8s.io` group, one file per kind.

mod flow_schema;
mod priority_level_configuration;
mod status;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "FlowSchema" => &flow_schema::FlowSchema,
        "PriorityLevelConfiguration" => &priority_level_configuration::PriorityLevelConfiguration,
        _ => return None,
    })
}
