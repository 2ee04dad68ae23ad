//! Brings claims and volumes together, and sees to what becomes of volumes that nobody claims any more.
//!
//! ```text
//! matching  which volume is good for a claim
//! claims    what is to be done about a claim      volumes   about a volume
//! known     objects as new as anybody here knows them
//! binder    how both are written                  keepers   a queue for each
//! recycler  volumes that are wiped by a pod
//! ```
//!
//! What differs from upstream: nothing is looked at again every few seconds. A claim is looked at when something changes that
//! it could wait for, and so what it waits for is told once and not over and over.

mod binder;
mod claims;
mod keepers;
mod known;
pub(crate) mod marks;
mod matching;
mod recycler;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod tests;
mod volumes;

use std::sync::Arc;

use kubecontroller::{Key, controller::Predicate, informer::Delta};

use self::{
    binder::{Binder, Sources},
    keepers::{Claims, Volumes},
    marks::BIND_COMPLETED,
    matching::suits,
};
use crate::{
    context::{ControllerContext, Task},
    objects::{PersistentVolume, PersistentVolumeClaim, Pod, StorageClass},
};

/// What runs. Each queue has one worker: two claims at once would only take each other's volumes.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let sources = Sources::new(context);
    let binder = Arc::new(Binder::new(context, &sources));
    let Sources {
        volumes,
        claims,
        classes,
        pods,
    } = &sources;
    let by_name = claims.store().index(named);
    let of_class = claims.store().index(open);
    let takers_of = of_class.clone();
    let (store, by_claim) = (claims.store().clone(), sources.volumes_by_claim());
    let keeper = context
        .controller("persistentvolume-binder-controller")
        .for_(claims)
        .watches(volumes, move |delta: &Delta<PersistentVolume>| {
            let volume = delta.object();
            let states = delta.old().into_iter().chain([volume]);
            let owners = states.filter_map(|volume| volume.spec.claim_ref.as_ref());
            let owners = owners.map(|owner| Key::new(&owner.namespace, &owner.name));
            let is_free = delta.new().is_some() && volume.spec.claim_ref.is_none();
            let takers = is_free.then(|| takers_of.get(volume.class()));
            let takers = takers.into_iter().flatten();
            let takers = takers.filter(|claim| suits(claim, volume, false));
            let takers = takers.map(|claim| Key::new(&claim.metadata.namespace, &claim.metadata.name));
            owners
                .chain(takers)
                .chain(by_name.keys(&volume.metadata.name))
                .collect()
        })
        .watches(classes, move |delta: &Delta<StorageClass>| {
            let class = delta.object();
            let mut keys = of_class.keys(&class.metadata.name);
            if class.is_default() {
                keys.extend(of_class.keys(""));
            }
            keys
        })
        .watches_where(pods, comes_or_goes(), move |delta: &Delta<Pod>| {
            let pod = delta.object();
            let claims = pod.claims();
            let keys = claims.map(|claim| Key::new(&pod.metadata.namespace, &claim));
            let is_open = |key: &Key| store.get(key).is_some_and(|claim| !open(&claim).is_empty());
            keys.filter(is_open).collect()
        })
        .workers(1)
        .reconciler(Claims(binder.clone()));
    let releaser = context
        .controller("persistentvolume-binder-controller-volumes")
        .for_(volumes)
        .watches(claims, move |delta: &Delta<PersistentVolumeClaim>| {
            let claim = delta.object();
            let states = delta.old().into_iter().chain([claim]);
            let names = states.map(|claim| &claim.spec.volume_name);
            let names = names.filter(|name| !name.is_empty());
            let key = Key::new(&claim.metadata.namespace, &claim.metadata.name);
            let keys = names.map(|name| Key::new("", name));
            keys.chain(by_claim.keys(key.as_str())).collect()
        })
        .watches(pods, |delta: &Delta<Pod>| recycler::volume_of(delta.object()))
        .workers(1)
        .reconciler(Volumes(binder));
    vec![Box::new(keeper), Box::new(releaser)]
}

/// The volume that a claim has or asks for.
fn named(claim: &PersistentVolumeClaim) -> Vec<String> {
    let name = &claim.spec.volume_name;
    (!name.is_empty()).then(|| name.to_string()).into_iter().collect()
}

/// The class of a claim that takes any volume.
fn open(claim: &PersistentVolumeClaim) -> Vec<String> {
    let is_open = claim.spec.volume_name.is_empty() && claim.metadata.annotation(BIND_COMPLETED).is_none();
    is_open.then(|| claim.class().to_owned()).into_iter().collect()
}

/// Whether a pod is new, gone, or has a node now: claims that wait for a node tell whom they wait for.
fn comes_or_goes() -> Predicate<Pod> {
    Predicate::new(|delta: &Delta<Pod>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.spec.node_name != new.spec.node_name,
        _ => true,
    })
}
