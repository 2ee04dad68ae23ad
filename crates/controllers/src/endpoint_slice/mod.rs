//! Tells which pods are behind a service, in slices, so that a change of one endpoint is not a change of all.

mod desired;
mod figures;
mod fill;
mod hints;
mod keeper;
mod plan;
#[cfg(test)]
mod tests;
mod topology;

use std::sync::Mutex;

use kubecontroller::informer::Delta;

use self::{figures::Figures, keeper::Keeper, topology::Zones};
use crate::{
    context::{ControllerContext, Task},
    objects::{EndpointSlice, Node, Service},
    resource::{ENDPOINT_SLICES, NODES, SERVICES},
    services::{
        service_pods::ServicePods,
        slice_writer::{self, SlicesByService},
        trigger_time::TriggerTimeTracker,
    },
    status_throttle::StatusThrottle,
};

/// Who looks after slices that are made here.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Under which services are found that ask by a note for hints.
const AUTOMATIC: &str = "automatic";

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let services = context.informer::<Service>(&SERVICES);
    let known = context.informer::<EndpointSlice>(&ENDPOINT_SLICES);
    let nodes = context.informer::<Node>(&NODES);
    let pods = context.pods();
    let automatic = services.store().index(|service| {
        let is_meant = hints::is_automatic(service) && service.selects_pods();
        is_meant.then(|| AUTOMATIC.to_owned()).into_iter().collect()
    });
    let members = ServicePods::new(services.store(), pods.store());
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("endpoint-slice-controller"),
        services: services.store().clone(),
        nodes: nodes.store().clone(),
        by_service: SlicesByService::new(known.store()),
        slices: known.clone(),
        members: members.clone(),
        triggers: TriggerTimeTracker::default(),
        status_throttle: StatusThrottle::default(),
        figures: Figures::new(&context.metrics),
        hinted: Mutex::default(),
    };
    let controller = context
        .controller("endpoint_slice")
        .for_(&services)
        .watches(&pods, move |delta| members.concerned(delta))
        .watches(&known, |delta| slice_writer::concerned(delta, MANAGER))
        // Where processors are decides about hints of services that ask for it.
        .watches(&nodes, move |delta| {
            if matters(delta) {
                automatic.keys(AUTOMATIC)
            } else {
                Vec::new()
            }
        });
    vec![Box::new(controller.reconciler(keeper))]
}

/// Whether a change of a node can change the zones.
fn matters(delta: &Delta<Node>) -> bool {
    let old = delta.old().and_then(|node| Zones::part(node));
    old != delta.new().and_then(|node| Zones::part(node))
}
