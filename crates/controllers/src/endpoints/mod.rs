//! The Endpoints controller: publishes the pods of a Service in one Endpoints object.

mod controller;
mod desired;
#[cfg(test)]
mod tests;

use kubecontroller::{Key, informer::Delta, object::Object};

use self::controller::EndpointsController;
use crate::{
    context::{ControllerContext, Task},
    objects::{Endpoints, Service},
    resource::{ENDPOINTS, SERVICES},
    services::{LEADER, service_pods::ServicePods, trigger_time::TriggerTimeTracker},
    status_throttle::StatusThrottle,
};

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let services = context.informer::<Service>(&SERVICES);
    let endpoints = context.informer::<Endpoints>(&ENDPOINTS);
    let pods = context.pods();
    let service_pods = ServicePods::new(services.store(), pods.store());
    let reconciler = EndpointsController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("endpoint-controller"),
        services: services.store().clone(),
        endpoints: endpoints.clone(),
        service_pods: service_pods.clone(),
        trigger_times: TriggerTimeTracker::default(),
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller("endpoints-controller")
        .for_(&services)
        .watches(&pods, move |delta| service_pods.concerned(delta))
        .watches(&endpoints, leftover_endpoints);
    vec![Box::new(controller.reconciler(reconciler))]
}

/// Endpoints of the initial list may belong to a deleted Service, unless they are a leader election lock. Deleted ones are
/// created again.
// upstream: pkg/controller/endpoint/endpoints_controller.go checkLeftoverEndpoints, onEndpointsDelete
fn leftover_endpoints(delta: &Delta<Endpoints>) -> Vec<Key> {
    let endpoints = delta.object();
    let is_meant = match delta {
        Delta::Added { initial, .. } => *initial && endpoints.metadata.annotation(LEADER).is_none(),
        Delta::Deleted { .. } => true,
        _ => false,
    };
    is_meant.then(|| endpoints.key()).into_iter().collect()
}
