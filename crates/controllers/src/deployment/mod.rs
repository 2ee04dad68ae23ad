//! The Deployment controller: one ReplicaSet per pod template, and rolling updates or recreation between them.

mod condition;
mod controller;
mod event_handler;
mod progress;
mod replica_set;
mod rollback;
mod rollout;
mod sync;
#[cfg(test)]
mod tests;

use self::{controller::DeploymentController, event_handler::DeploymentEventHandler};
use crate::{
    context::{ControllerContext, Task},
    controller_ref_manager::OwnerIndex,
    objects::{Deployment, ReplicaSet},
    resource::{DEPLOYMENTS, REPLICA_SETS},
    status_throttle::StatusThrottle,
};

const WORKERS: usize = 8;

// upstream: pkg/controller/deployment/deployment_controller.go NewDeploymentController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let deployments = context.informer::<Deployment>(&DEPLOYMENTS);
    let sets = context.informer::<ReplicaSet>(&REPLICA_SETS);
    let pods = context.pods();
    let event_handler = DeploymentEventHandler::new(deployments.store(), sets.store());
    let pod_event_handler = event_handler.clone();
    let deployment_controller = DeploymentController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        replica_set_index: OwnerIndex::new(sets.store()),
        pods: OwnerIndex::new(pods.store()),
        deployments: deployments.clone(),
        sets: sets.clone(),
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller("deployment-controller")
        .for_(&deployments)
        .watches(&sets, move |delta| {
            event_handler.deployments_of_replica_set(delta)
        })
        .watches(&pods, move |delta| pod_event_handler.deployments_of_pod(delta))
        .workers(WORKERS);
    vec![Box::new(controller.reconciler(deployment_controller))]
}
