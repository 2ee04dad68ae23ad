//! The PersistentVolume controller: binds claims and volumes, and reclaims released volumes.
//!
//! ```text
//! matching     which volume matches a claim
//! claims       decisions about a claim          volumes     about a volume
//! write_cache  read-your-writes cache
//! binder       writes                           controller  reconcilers
//! recycler     recycler pods
//! ```
//!
//! Difference from upstream: there is no periodic resync. A claim is synced when something changes that it may wait for, so that
//! its event is recorded once and not repeatedly.

pub(crate) mod annotations;
mod binder;
mod claims;
mod controller;
mod matching;
mod recycler;
#[cfg(test)]
mod scenario_tests;
#[cfg(test)]
mod tests;
mod volumes;
mod write_cache;

use std::sync::Arc;

use k3_workloads::{PersistentVolume, PersistentVolumeClaim, Pod};
use kubecontroller::{Key, controller::Predicate, informer::Delta};

use self::{
    annotations::BIND_COMPLETED,
    binder::{PersistentVolumeController, VolumeInformers},
    controller::{ClaimReconciler, VolumeReconciler},
    matching::is_match,
};

use crate::{
    context::{ControllerContext, Task},
    objects::{BindingMode, StorageClass},
};

/// Each queue has one worker: two claims in parallel would compete for volumes.
// upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go NewController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let sources = VolumeInformers::new(context);
    let controller = Arc::new(PersistentVolumeController::new(context, &sources));
    let VolumeInformers {
        volumes,
        claims,
        classes,
        pods,
    } = &sources;
    let by_name = claims.store().index(requested_volume);
    let of_class = claims.store().index(open_claim_class);
    let takers_of = of_class.clone();
    let store = claims.store().clone();
    let by_claim = sources.volumes_by_claim();
    let claim_controller = context
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
            let takers = takers.filter(|claim| is_match(claim, volume, BindingMode::Immediate));
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
        .watches_where(pods, pod_predicate(), move |delta: &Delta<Pod>| {
            let pod = delta.object();
            let claims = pod.claims();
            let keys = claims.map(|claim| Key::new(&pod.metadata.namespace, &claim));
            let is_open = |key: &Key| {
                store
                    .get(key)
                    .is_some_and(|claim| !open_claim_class(&claim).is_empty())
            };
            keys.filter(is_open).collect()
        })
        .workers(1)
        .reconciler(ClaimReconciler(controller.clone()));
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
        .reconciler(VolumeReconciler(controller));
    vec![Box::new(claim_controller), Box::new(releaser)]
}

/// The volume that a claim is bound to or requests.
fn requested_volume(claim: &PersistentVolumeClaim) -> Vec<String> {
    let name = &claim.spec.volume_name;
    (!name.is_empty()).then(|| name.to_string()).into_iter().collect()
}

/// The class of a claim that accepts any volume.
fn open_claim_class(claim: &PersistentVolumeClaim) -> Vec<String> {
    let is_open = claim.spec.volume_name.is_empty() && claim.metadata.annotation(BIND_COMPLETED).is_none();
    is_open.then(|| claim.class().to_owned()).into_iter().collect()
}

/// Whether a pod is new, deleted, or scheduled: events of claims that wait for a consumer name it.
fn pod_predicate() -> Predicate<Pod> {
    Predicate::new(|delta: &Delta<Pod>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.spec.node_name != new.spec.node_name,
        _ => true,
    })
}
