//! The ServiceCIDR controller: marks ServiceCIDRs ready, and keeps them while IPAddresses refer to them (KEP-1880).

mod controller;
mod deletion;
#[cfg(test)]
mod tests;

use kubecontroller::{Key, informer::Delta, object::Object, store::Store};

use self::{
    controller::ServiceCidrController,
    deletion::{allocated_address, can_allocate, cidrs_of},
};
use crate::{
    context::{ControllerContext, Task},
    objects::{IpAddress, ServiceCidr},
    resource::{IP_ADDRESSES, SERVICE_CIDRS},
};

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let cidrs = context.informer::<ServiceCidr>(&SERVICE_CIDRS);
    let addresses = context.informer::<IpAddress>(&IP_ADDRESSES);
    let reconciler = ServiceCidrController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        cidrs: cidrs.clone(),
        addresses: addresses.store().clone(),
    };
    let all = cidrs.store().clone();
    let holders = cidrs.store().clone();
    let controller = context
        .controller("service-cidr-controller")
        .for_(&cidrs)
        .watches(&cidrs, move |delta| overlapping_service_cidrs(delta, &all))
        .watches(&addresses, move |delta| containing_service_cidrs(delta, &holders));
    vec![Box::new(controller.reconciler(reconciler))]
}

/// A new ServiceCIDR may contain addresses of others, which can then be deleted.
// upstream: pkg/controller/servicecidrs/servicecidrs_controller.go overlappingServiceCIDRs
fn overlapping_service_cidrs(delta: &Delta<ServiceCidr>, all: &Store<ServiceCidr>) -> Vec<Key> {
    let Delta::Added { new, .. } = delta else {
        return Vec::new();
    };
    let overlaps = |other: &ServiceCidr| {
        let theirs = cidrs_of(other);
        cidrs_of(new)
            .iter()
            .any(|ours| theirs.iter().any(|network| network.overlaps(ours)))
    };
    all.all()
        .iter()
        .filter(|other| overlaps(other))
        .map(|other| other.key())
        .collect()
}

/// An added or deleted IPAddress may block the deletion of a ServiceCIDR.
// upstream: pkg/controller/servicecidrs/servicecidrs_controller.go containingServiceCIDRs
fn containing_service_cidrs(delta: &Delta<IpAddress>, all: &Store<ServiceCidr>) -> Vec<Key> {
    let changes = matches!(delta, Delta::Added { .. } | Delta::Deleted { .. });
    let Some(address) = allocated_address(delta.object()).filter(|_| changes) else {
        return Vec::new();
    };
    all.all()
        .iter()
        .filter(|cidr| can_allocate(cidr, address))
        .map(|cidr| cidr.key())
        .collect()
}
