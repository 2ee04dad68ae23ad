//! The EndpointSlice mirroring controller: mirrors Endpoints of Services without a selector to EndpointSlices (KEP-752).

mod controller;
mod mirror;
#[cfg(test)]
mod tests;

use kubecontroller::{Key, informer::Delta, object::Object};

use self::{controller::EndpointSliceMirroringController, mirror::should_mirror};
use crate::{
    context::{ControllerContext, Task},
    objects::{EndpointSlice, Endpoints, Service},
    resource::{ENDPOINT_SLICES, ENDPOINTS, SERVICES},
    services::slice_writer::{self, SlicesByService},
    status_throttle::StatusThrottle,
};

/// Value of the managed-by label.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let services = context.informer::<Service>(&SERVICES);
    let endpoints = context.informer::<Endpoints>(&ENDPOINTS);
    let known = context.informer::<EndpointSlice>(&ENDPOINT_SLICES);
    let reconciler = EndpointSliceMirroringController {
        writer: context.writer.clone(),
        recorder: context
            .recorder
            .clone()
            .component("endpoint-slice-mirroring-controller"),
        services: services.store().clone(),
        endpoints: endpoints.store().clone(),
        by_service: SlicesByService::new(known.store()),
        slices: known.clone(),
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller("endpointslice-mirroring-controller")
        .watches(&endpoints, |delta| {
            let mut states = [delta.old(), delta.new()].into_iter().flatten();
            states
                .any(|endpoints| should_mirror(endpoints))
                .then(|| delta.object().key())
                .into_iter()
                .collect()
        })
        .watches(&services, service_changed)
        .watches(&known, |delta| slice_writer::concerned(delta, MANAGER));
    vec![Box::new(controller.reconciler(reconciler))]
}

/// Only the presence of a selector matters.
// upstream: pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go onServiceAdd, onServiceUpdate, onServiceDelete
fn service_changed(delta: &Delta<Service>) -> Vec<Key> {
    let chooses = |service: &Service| !service.spec.selector.is_empty();
    let matters = match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => chooses(old) != chooses(new),
        _ => !chooses(delta.object()),
    };
    matters.then(|| delta.object().key()).into_iter().collect()
}
