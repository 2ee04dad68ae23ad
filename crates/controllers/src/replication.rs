//! The ReplicationController controller: the ReplicaSet controller for another kind.

use crate::{
    context::{ControllerContext, Task},
    objects::LabelEqualitySelector,
    replicaset::{ReplicaSetKind, build_controller},
    resource::REPLICATION_CONTROLLERS,
};

// upstream: pkg/controller/replication/replication_controller.go NewReplicationManager
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let kind = ReplicaSetKind {
        resource: &REPLICATION_CONTROLLERS,
        reports_terminating: false,
    };
    let context = ControllerContext {
        recorder: context.recorder.clone().component("replication-controller"),
        ..context.clone()
    };
    vec![build_controller::<LabelEqualitySelector>(
        &context,
        "replicationcontroller-controller",
        kind,
    )]
}
