//! PV protection: volumes are kept while they are bound.

use k3_workloads::{PersistentVolume, VolumePhase};
use kubecontroller::{
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::Delta,
    store::Store,
    writer::ApiWriter,
};

use super::{FinalizerAction, FinalizerChange, write_finalizers};
use crate::{
    context::{ControllerContext, Task},
    resource::PERSISTENT_VOLUMES,
};

const FINALIZER: &str = "kubernetes.io/pv-protection";

// upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go Controller, processPV
struct PVProtectionController {
    writer: ApiWriter,
    store: Store<PersistentVolume>,
}

// upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go NewPVProtectionController, processPV
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let writer = context.writer.clone();
    let store = volumes.store().clone();
    let matters = |delta: &Delta<PersistentVolume>| {
        let new = delta.new();
        new.is_some_and(|volume| FinalizerAction::of(&**volume, FINALIZER) != FinalizerAction::Nothing)
    };
    let runner = context
        .controller("persistentvolume-protection-controller")
        .for_where(&volumes, Predicate::new(matters))
        .reconciler(PVProtectionController { writer, store });
    vec![Box::new(runner)]
}

impl Reconciler for PVProtectionController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let PVProtectionController { writer, store } = self;
        let volume = store.get(&request.key);
        let Some(volume) = volume else {
            return Ok(Outcome::Done);
        };
        let change = match FinalizerAction::of(&*volume, FINALIZER) {
            FinalizerAction::Add => FinalizerChange::Add,
            FinalizerAction::RemoveIfUnused if volume.status.phase != VolumePhase::Bound => {
                FinalizerChange::Remove
            }
            _ => return Ok(Outcome::Done),
        };
        write_finalizers(writer, &PERSISTENT_VOLUMES, &volume.metadata, FINALIZER, change).await?;
        Ok(Outcome::Done)
    }
}
