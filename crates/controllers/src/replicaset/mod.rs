//! The ReplicaSet controller.

mod controller;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubecontroller::{expectations::ControllerExpectations, selector::Selector};
use serde::de::DeserializeOwned;

pub(crate) use self::controller::ReplicaSetKind;
use self::controller::{ReplicaSetController, ReplicaSetProjection};
use crate::{
    context::{ControllerContext, Task},
    controller_ref_manager::OwnerIndex,
    pods::event_handler::{self, PodEventHandler},
    resource::REPLICA_SETS,
    status_throttle::StatusThrottle,
};

const WORKERS: usize = 8;

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let kind = ReplicaSetKind {
        resource: &REPLICA_SETS,
        reports_terminating: true,
    };
    vec![build_controller::<Selector>(
        context,
        "replicaset-controller",
        kind,
    )]
}

/// Builds the controller for ReplicaSets or ReplicationControllers.
// upstream: pkg/controller/replicaset/replica_set.go NewBaseController
pub(crate) fn build_controller<S>(context: &ControllerContext, name: &str, kind: ReplicaSetKind) -> Task
where
    S: AsRef<Selector> + DeserializeOwned + Default + Send + Sync + 'static,
{
    let sets = context.informer::<ReplicaSetProjection<S>>(kind.resource);
    let pods = context.pods();
    let expectations = Arc::new(ControllerExpectations::default());
    let event_handler = PodEventHandler::new(
        kind.resource,
        sets.store(),
        |set: &ReplicaSetProjection<S>| set.spec.selector.as_ref(),
        event_handler::matters,
        Arc::clone(&expectations),
    );
    let forget = Arc::clone(&expectations);
    let reconciler = ReplicaSetController {
        kind,
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        siblings: OwnerIndex::new(sets.store()),
        pods: OwnerIndex::new(pods.store()),
        sets: sets.clone(),
        expectations,
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller(name)
        .for_(&sets)
        .watches(&sets, move |delta| {
            event_handler::forget_replaced_set(delta, &forget)
        })
        .watches(&pods, move |delta| event_handler.keys(delta))
        .workers(WORKERS);
    Box::new(controller.reconciler(reconciler))
}
