//! Volumes stay as long as they are bound.

use kubecontroller::{
    controller::{Outcome, Predicate, reconcile_fn},
    informer::Delta,
};

use super::{Hold, write};
use crate::{
    context::{ControllerContext, Task},
    objects::{PersistentVolume, VolumePhase},
    resource::PERSISTENT_VOLUMES,
};

const FINALIZER: &str = "kubernetes.io/pv-protection";

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let volumes = context.informer::<PersistentVolume>(&PERSISTENT_VOLUMES);
    let (writer, store) = (context.writer.clone(), volumes.store().clone());
    let matters = |delta: &Delta<PersistentVolume>| {
        let new = delta.new();
        new.is_some_and(|volume| Hold::of(&**volume, FINALIZER) != Hold::Leave)
    };
    let runner = context
        .controller("persistentvolume-protection-controller")
        .for_where(&volumes, Predicate::new(matters))
        .reconciler(reconcile_fn(move |request| {
            let (writer, volume) = (writer.clone(), store.get(&request.key));
            async move {
                let Some(volume) = volume else {
                    return Ok(Outcome::Done);
                };
                let is_held = match Hold::of(&*volume, FINALIZER) {
                    Hold::Add => true,
                    Hold::Consider if volume.status.phase != VolumePhase::Bound => false,
                    _ => return Ok(Outcome::Done),
                };
                write(&writer, &PERSISTENT_VOLUMES, &volume.metadata, FINALIZER, is_held).await?;
                Ok(Outcome::Done)
            }
        }));
    vec![Box::new(runner)]
}
