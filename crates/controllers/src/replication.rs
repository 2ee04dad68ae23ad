//! Keeps as many pods as a replication controller asks for. It is a replica set by another name.

use crate::{
    context::{Context, Task},
    objects::EqualSelector,
    replicaset::{SetKind, keep},
    resource::REPLICATION_CONTROLLERS,
};

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let kind = SetKind {
        resource: &REPLICATION_CONTROLLERS,
        tells_going: false,
    };
    let context = Context {
        recorder: context.recorder.clone().component("replication-controller"),
        ..context.clone()
    };
    vec![keep::<EqualSelector>(&context, "replicationmanager", kind)]
}
