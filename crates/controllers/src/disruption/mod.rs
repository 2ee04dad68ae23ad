//! Says how many pods of a disruption budget may be missed now, so that the server can allow or refuse evictions.

mod keeper;
mod plan;
mod scale;
mod stale;
#[cfg(test)]
mod tests;
mod wake;

use self::{keeper::Keeper, scale::Scales, wake::Wake};
use crate::{
    context::{ControllerContext, Task},
    objects::PodDisruptionBudget,
    resource::{DEPLOYMENTS, POD_DISRUPTION_BUDGETS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS},
};

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let (budgets, pods) = (
        context.informer::<PodDisruptionBudget>(&POD_DISRUPTION_BUDGETS),
        context.pods(),
    );
    let controllers = context.informer(&REPLICATION_CONTROLLERS);
    let sets = context.informer(&REPLICA_SETS);
    let deployments = context.informer(&DEPLOYMENTS);
    let stateful = context.informer(&STATEFUL_SETS);
    let recorder = context.recorder.clone().component("controllermanager");
    let wake = Wake {
        budgets: budgets.store().by_namespace(),
        recorder: recorder.clone(),
    };
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder,
        clock: context.clock.clone(),
        pods: pods.store().by_namespace(),
        scales: Scales {
            writer: context.writer.clone(),
            controllers: controllers.store().clone(),
            sets: sets.store().clone(),
            deployments: deployments.store().clone(),
            stateful: stateful.store().clone(),
        },
        budgets: budgets.clone(),
    };
    let controller = context
        .controller("disruption")
        .for_(&budgets)
        .watches(&pods, move |delta| wake.keys(delta))
        // These are read, and what was not read yet would be missing.
        .watches(&controllers, |_| Vec::new())
        .watches(&sets, |_| Vec::new())
        .watches(&deployments, |_| Vec::new())
        .watches(&stateful, |_| Vec::new());
    vec![Box::new(controller.reconciler(keeper)), stale::make(context)]
}
