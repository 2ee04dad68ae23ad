//! The EndpointSlice controller: publishes the pods of a Service in slices, so that one changed endpoint does not resend all.

mod assign;
mod controller;
mod desired;
mod hints;
mod metrics;
mod reconcile;
#[cfg(test)]
mod tests;
mod topology;

use k3_workloads::Node;
use kubecontroller::informer::Delta;
use parking_lot::Mutex;

use self::{controller::EndpointSliceController, metrics::EndpointSliceMetrics, topology::ZoneCpu};

use crate::{
    context::{ControllerContext, Task},
    objects::{EndpointSlice, Service},
    resource::{ENDPOINT_SLICES, NODES, SERVICES},
    services::{
        service_pods::ServicePods,
        slice_writer::{self, SlicesByService},
        trigger_time::TriggerTimeTracker,
    },
    status_throttle::StatusThrottle,
};

/// Value of the managed-by label.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Index key of Services with topology aware hints.
const AUTOMATIC: &str = "automatic";

// upstream: pkg/controller/endpointslice/endpointslice_controller.go NewController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let services = context.informer::<Service>(&SERVICES);
    let known = context.informer::<EndpointSlice>(&ENDPOINT_SLICES);
    let nodes = context.informer::<Node>(&NODES);
    let pods = context.pods();
    let automatic = services.store().index(|service| {
        let is_meant = hints::is_automatic(service) && service.selects_pods();
        is_meant.then(|| AUTOMATIC.to_owned()).into_iter().collect()
    });
    let service_pods = ServicePods::new(services.store(), pods.store());
    let reconciler = EndpointSliceController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("endpoint-slice-controller"),
        services: services.store().clone(),
        nodes: nodes.store().clone(),
        by_service: SlicesByService::new(known.store()),
        slices: known.clone(),
        service_pods: service_pods.clone(),
        trigger_times: TriggerTimeTracker::default(),
        status_throttle: StatusThrottle::default(),
        metrics: EndpointSliceMetrics::new(&context.metrics),
        hinted: Mutex::default(),
    };
    let controller = context
        .controller("endpointslice-controller")
        .for_(&services)
        .watches(&pods, move |delta| service_pods.concerned(delta))
        .watches(&known, |delta| slice_writer::concerned(delta, MANAGER))
        // Node CPU and zones determine topology aware hints.
        .watches(&nodes, move |delta| {
            if matters(delta) {
                automatic.keys(AUTOMATIC)
            } else {
                Vec::new()
            }
        });
    vec![Box::new(controller.reconciler(reconciler))]
}

/// Whether a node change can change topology aware hints.
// upstream: pkg/controller/endpointslice/endpointslice_controller.go updateNode
fn matters(delta: &Delta<Node>) -> bool {
    let old = delta.old().and_then(|node| ZoneCpu::zone_and_cpu(node));
    old != delta.new().and_then(|node| ZoneCpu::zone_and_cpu(node))
}
