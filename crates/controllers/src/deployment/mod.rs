//! Rolls out the template of a deployment: a replica set for each template, and the pods moved from the old ones to the new.

mod condition;
mod plan;
mod progress;
mod rollback;
mod roller;
mod rollout;
mod set;
#[cfg(test)]
mod tests;
mod wake;

use self::{roller::Roller, wake::Wake};
use crate::{
    calm::Calm,
    context::{Context, Task},
    family::Family,
    objects::{Deployment, ReplicaSet},
    resource::{DEPLOYMENTS, REPLICA_SETS},
};

const WORKERS: usize = 8;

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let deployments = context.informer::<Deployment>(&DEPLOYMENTS);
    let sets = context.informer::<ReplicaSet>(&REPLICA_SETS);
    let pods = context.pods();
    let wake = Wake::new(deployments.store(), sets.store());
    let wake_of_pod = wake.clone();
    let roller = Roller {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        families: Family::new(sets.store()),
        pods: Family::new(pods.store()),
        deployments: deployments.clone(),
        sets: sets.clone(),
        calm: Calm::default(),
    };
    let controller = context
        .controller("deployment")
        .for_(&deployments)
        .watches(&sets, move |delta| wake.of_set(delta))
        .watches(&pods, move |delta| wake_of_pod.of_pod(delta))
        .workers(WORKERS);
    vec![Box::new(controller.reconciler(roller))]
}
