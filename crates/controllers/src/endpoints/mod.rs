//! Tells which pods are behind a service, in the older form: one object for each service.

mod keeper;
mod plan;
#[cfg(test)]
mod tests;

use kubecontroller::{Key, informer::Delta, object::Object};

use self::keeper::Keeper;
use crate::{
    context::{ControllerContext, Task},
    objects::{Endpoints, Service},
    resource::{ENDPOINTS, SERVICES},
    services::{LEADER, service_pods::ServicePods, trigger_time::TriggerTimeTracker},
    status_throttle::StatusThrottle,
};

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let services = context.informer::<Service>(&SERVICES);
    let endpoints = context.informer::<Endpoints>(&ENDPOINTS);
    let pods = context.pods();
    let members = ServicePods::new(services.store(), pods.store());
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component("endpoint-controller"),
        services: services.store().clone(),
        endpoints: endpoints.clone(),
        members: members.clone(),
        triggers: TriggerTimeTracker::default(),
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller("endpoint")
        .for_(&services)
        .watches(&pods, move |delta| members.concerned(delta))
        .watches(&endpoints, left_over);
    vec![Box::new(controller.reconciler(keeper))]
}

/// Endpoints that were there before may be those of a service that is gone, unless they are the lock of an election. Those
/// that somebody deletes are made again.
fn left_over(delta: &Delta<Endpoints>) -> Vec<Key> {
    let endpoints = delta.object();
    let is_meant = match delta {
        Delta::Added { initial, .. } => *initial && endpoints.metadata.annotation(LEADER).is_none(),
        Delta::Deleted { .. } => true,
        _ => false,
    };
    is_meant.then(|| endpoints.key()).into_iter().collect()
}
