//! The disruption controller: keeps the status of PodDisruptionBudgets, which the eviction API reads.

mod controller;
mod event_handler;
mod pdb_status;
mod scale;
mod stale;
#[cfg(test)]
mod tests;

use self::{controller::DisruptionController, event_handler::PodEventHandler, scale::ScaleFinder};
use crate::{
    context::{ControllerContext, Task},
    objects::PodDisruptionBudget,
    resource::{DEPLOYMENTS, POD_DISRUPTION_BUDGETS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS},
};

// upstream: pkg/controller/disruption/disruption.go NewDisruptionController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let budgets = context.informer::<PodDisruptionBudget>(&POD_DISRUPTION_BUDGETS);
    let pods = context.pods();
    let controllers = context.informer(&REPLICATION_CONTROLLERS);
    let sets = context.informer(&REPLICA_SETS);
    let deployments = context.informer(&DEPLOYMENTS);
    let stateful = context.informer(&STATEFUL_SETS);
    let recorder = context.recorder.clone().component("controllermanager");
    let event_handler = PodEventHandler {
        budgets: budgets.store().by_namespace(),
        recorder: recorder.clone(),
    };
    let reconciler = DisruptionController {
        writer: context.writer.clone(),
        recorder,
        clock: context.clock.clone(),
        pods: pods.store().by_namespace(),
        scale_finder: ScaleFinder {
            writer: context.writer.clone(),
            controllers: controllers.store().clone(),
            sets: sets.store().clone(),
            deployments: deployments.store().clone(),
            stateful: stateful.store().clone(),
        },
        budgets: budgets.clone(),
    };
    let controller = context
        .controller("disruption-controller")
        .for_(&budgets)
        .watches(&pods, move |delta| event_handler.keys(delta))
        // Read through their stores: they have to be synced before the first reconcile.
        .watches(&controllers, |_| Vec::new())
        .watches(&sets, |_| Vec::new())
        .watches(&deployments, |_| Vec::new())
        .watches(&stateful, |_| Vec::new());
    vec![Box::new(controller.reconciler(reconciler)), stale::make(context)]
}
