//! Keeps the pods of stateful sets: each has a number, and with it a name and claims that stay when the pod is made anew.
//!
//! ```text
//! member  who a pod is: number, name, labels, volumes
//! claims  which claims are missing, and who owns those that are there
//! plan    what is to be done now, and in which order
//! keeper  does it
//! ```

mod claims;
mod keeper;
mod member;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubecontroller::{Key, expectations::ControllerExpectations, informer::Delta};

use self::keeper::Keeper;
use crate::{
    calm::Calm,
    context::{Context, Task},
    family::Family,
    history::{self, Archive},
    objects::{PersistentVolumeClaim, Pod, StatefulSet},
    pods::wake::{self, Wake},
    resource::{PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS},
};

const WORKERS: usize = 8;

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let (sets, pods) = (context.informer::<StatefulSet>(&STATEFUL_SETS), context.pods());
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let expected = Arc::new(ControllerExpectations::default());
    let forget = Arc::clone(&expected);
    let wake = Wake::new(
        &STATEFUL_SETS,
        sets.store(),
        |set: &StatefulSet| &set.spec.selector.selector,
        matters,
        Arc::clone(&expected),
    );
    let archive = Archive::new(context, &STATEFUL_SETS);
    let revisions = archive.revisions.clone();
    let keeper = Keeper {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        family: Family::new(pods.store()),
        sets: sets.clone(),
        pods: pods.clone(),
        claims: claims.clone(),
        archive,
        expected,
        calm: Calm::default(),
    };
    let controller = context
        .controller("statefulset")
        .for_(&sets)
        .watches(&sets, move |delta| wake::forget_replaced(delta, &forget))
        .watches(&pods, move |delta| wake.keys(delta))
        .watches(&revisions, |delta| history::keys(&STATEFUL_SETS, delta))
        .watches(&claims, freed)
        .workers(WORKERS);
    vec![Box::new(controller.reconciler(keeper))]
}

/// Whether a change of a pod can change anything for a set.
fn matters(old: &Pod, new: &Pod) -> bool {
    wake::matters(old, new) || old.status.phase != new.status.phase
}

/// The sets that may have waited for a claim to go with the pod that it was for.
fn freed(delta: &Delta<PersistentVolumeClaim>) -> Vec<Key> {
    let Delta::Deleted { last, .. } = delta else {
        return Vec::new();
    };
    let owners = last.metadata.owner_references.iter();
    let pods = owners.filter(|owner| &*owner.kind == "Pod");
    let sets = pods.filter_map(|pod| member::parts(&pod.name));
    sets.map(|(set, _)| Key::new(&last.metadata.namespace, set))
        .collect()
}
