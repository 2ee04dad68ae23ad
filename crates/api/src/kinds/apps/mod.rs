//! The kinds of the `apps` group, one file per kind.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;
#[cfg(test)]
mod tests;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "ControllerRevision" => &controller_revision::ControllerRevision,
        "DaemonSet" => &daemon_set::DaemonSet,
        "Deployment" => &deployment::Deployment,
        "ReplicaSet" => &replica_set::ReplicaSet,
        "StatefulSet" => &stateful_set::StatefulSet,
        _ => return None,
    })
}
