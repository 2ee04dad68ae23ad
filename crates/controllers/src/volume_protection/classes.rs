//! VAC protection: VolumeAttributesClasses are kept while a claim or a volume refers to them.

use k3_workloads::{PersistentVolume, PersistentVolumeClaim};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    store::{Index, Store},
    writer::ApiWriter,
};
use serde::de::IgnoredAny;

use super::{FinalizerAction, FinalizerChange, write_finalizers};
use crate::{
    context::{ControllerContext, Task},
    objects::Projection,
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES},
};

const FINALIZER: &str = "kubernetes.io/vac-protection";

type ProtectedClass = Projection<IgnoredAny>;

// upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go Controller, processVAC
struct VACProtectionController {
    writer: ApiWriter,
    store: Store<ProtectedClass>,
    by_claims: Index<PersistentVolumeClaim>,
    by_volumes: Index<PersistentVolume>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let classes = context.informer::<ProtectedClass>(&VOLUME_ATTRIBUTES_CLASSES);
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let by_claims: Index<PersistentVolumeClaim> = claims.store().shared_index("attributes", classes_of_claim);
    let by_volumes: Index<PersistentVolume> = volumes.store().shared_index("attributes", classes_of_volume);
    let writer = context.writer.clone();
    let store = classes.store().clone();
    let matters = |delta: &Delta<ProtectedClass>| {
        let new = delta.new();
        new.is_some_and(|class| FinalizerAction::of(&**class, FINALIZER) != FinalizerAction::Nothing)
    };
    let runner = context
        .controller("volumeattributesclass-protection-controller")
        .for_where(&classes, Predicate::new(matters))
        .watches(&claims, |delta| no_longer_referenced(delta, classes_of_claim))
        .watches(&volumes, |delta| no_longer_referenced(delta, classes_of_volume))
        .reconciler(VACProtectionController {
            writer,
            store,
            by_claims,
            by_volumes,
        });
    vec![Box::new(runner)]
}

impl Reconciler for VACProtectionController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let VACProtectionController {
            writer,
            store,
            by_claims,
            by_volumes,
        } = self;
        let class = store.get(&request.key);
        let name = request.key.name();
        let is_used = by_claims.count(name) > 0 || by_volumes.count(name) > 0;
        let Some(class) = class else {
            return Ok(Outcome::Done);
        };
        let change = match FinalizerAction::of(&*class, FINALIZER) {
            FinalizerAction::Add => FinalizerChange::Add,
            FinalizerAction::RemoveIfUnused if !is_used => FinalizerChange::Remove,
            _ => return Ok(Outcome::Done),
        };
        let metadata = &class.metadata;
        write_finalizers(writer, &VOLUME_ATTRIBUTES_CLASSES, metadata, FINALIZER, change).await?;
        Ok(Outcome::Done)
    }
}

/// The classes that a claim refers to: requested, current and target.
// upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go getPVCReferencedVACNames
fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<String> {
    let status = &claim.status;
    let target = status.modify_volume_status.as_ref();
    let target = target.map(|target| &*target.target_volume_attributes_class_name);
    let mut names: Vec<String> = [
        claim.spec.volume_attributes_class_name.as_deref(),
        status.current_volume_attributes_class_name.as_deref(),
        target,
    ]
    .into_iter()
    .flatten()
    .filter(|name| !name.is_empty())
    .map(str::to_owned)
    .collect();
    names.sort();
    names.dedup();
    names
}

/// The class that a volume refers to.
// upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go getPVReferencedVACNames
fn classes_of_volume(volume: &PersistentVolume) -> Vec<String> {
    let name = volume.spec.volume_attributes_class_name.as_deref();
    name.filter(|name| !name.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// Classes that are no longer referred to.
// upstream: pkg/controller/volume/vacprotection/vac_protection_controller.go pvcUpdated, pvUpdated
fn no_longer_referenced<T>(delta: &Delta<T>, named: fn(&T) -> Vec<String>) -> Vec<Key> {
    let (before, still) = match delta {
        Delta::Deleted { last, .. } => (named(last), Vec::new()),
        _ => (
            delta.old().map(|old| named(old)).unwrap_or_default(),
            named(delta.object()),
        ),
    };
    let deleted = before.iter().filter(|name| !still.contains(name));
    deleted.map(|name| Key::new("", name)).collect()
}
