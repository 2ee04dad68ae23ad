//! Says that networks of services are ready, and keeps them as long as services have addresses from them.

mod keeper;
mod plan;
#[cfg(test)]
mod tests;

use kubecontroller::{Key, informer::Delta, object::Object, store::Store};

use self::{
    keeper::Keeper,
    plan::{address_of, can_give, networks},
};
use crate::{
    context::{ControllerContext, Task},
    objects::{IpAddress, ServiceCidr},
    resource::{IP_ADDRESSES, SERVICE_CIDRS},
};

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let cidrs = context.informer::<ServiceCidr>(&SERVICE_CIDRS);
    let addresses = context.informer::<IpAddress>(&IP_ADDRESSES);
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        cidrs: cidrs.clone(),
        addresses: addresses.store().clone(),
    };
    let (all, holders) = (cidrs.store().clone(), cidrs.store().clone());
    let controller = context
        .controller("ipaddresses")
        .for_(&cidrs)
        .watches(&cidrs, move |delta| overlapping(delta, &all))
        .watches(&addresses, move |delta| holding(delta, &holders));
    vec![Box::new(controller.reconciler(keeper))]
}

/// A new one may take over the addresses of others, which can go then.
fn overlapping(delta: &Delta<ServiceCidr>, all: &Store<ServiceCidr>) -> Vec<Key> {
    let Delta::Added { new, .. } = delta else {
        return Vec::new();
    };
    let overlaps = |other: &ServiceCidr| {
        let theirs = networks(other);
        networks(new)
            .iter()
            .any(|ours| theirs.iter().any(|network| network.overlaps(ours)))
    };
    all.all()
        .iter()
        .filter(|other| overlaps(other))
        .map(|other| other.key())
        .collect()
}

/// An address that comes or goes may be what keeps a network.
fn holding(delta: &Delta<IpAddress>, all: &Store<ServiceCidr>) -> Vec<Key> {
    let changes = matches!(delta, Delta::Added { .. } | Delta::Deleted { .. });
    let Some(address) = address_of(delta.object()).filter(|_| changes) else {
        return Vec::new();
    };
    all.all()
        .iter()
        .filter(|cidr| can_give(cidr, address))
        .map(|cidr| cidr.key())
        .collect()
}
