//! Tells which pods are behind a service, in slices, so that a change of one endpoint is not a change of all.

mod desired;
mod fill;
mod hints;
mod keeper;
mod plan;
#[cfg(test)]
mod tests;

use self::keeper::Keeper;
use crate::{
    calm::Calm,
    context::{Context, Task},
    objects::{EndpointSlice, Node, Service},
    resource::{ENDPOINT_SLICES, NODES, SERVICES},
    services::{
        members::Members,
        slices::{self, ByService},
        trigger::Triggers,
    },
};

/// Who looks after slices that are made here.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let services = context.informer::<Service>(&SERVICES);
    let known = context.informer::<EndpointSlice>(&ENDPOINT_SLICES);
    let nodes = context.informer::<Node>(&NODES);
    let pods = context.pods();
    let members = Members::new(services.store(), pods.store());
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("endpoint-slice-controller"),
        services: services.store().clone(),
        nodes: nodes.store().clone(),
        by_service: ByService::new(known.store()),
        slices: known.clone(),
        members: members.clone(),
        triggers: Triggers::default(),
        calm: Calm::default(),
    };
    let controller = context
        .controller("endpoint_slice")
        .for_(&services)
        .watches(&pods, move |delta| members.concerned(delta))
        .watches(&known, |delta| slices::concerned(delta, MANAGER))
        // They are read, and what was not read yet would be missing.
        .watches(&nodes, |_| Vec::new());
    vec![Box::new(controller.reconciler(keeper))]
}
