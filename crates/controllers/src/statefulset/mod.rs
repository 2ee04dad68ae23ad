//! The StatefulSet controller: pods with ordinals, stable names and claims that survive the pod.
//!
//! ```text
//! pod_identity  ordinal, name, labels, volumes
//! claims        missing claims, owner references of claims
//! control       what to do now, and in which order
//! controller    the reconciler
//! ```

mod claims;
mod control;
mod controller;
mod pod_identity;
mod status;
mod step_error;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k3_workloads::{PersistentVolumeClaim, Pod};
use kubecontroller::{Key, expectations::ControllerExpectations, informer::Delta};

use self::controller::StatefulSetController;

use crate::{
    context::{ControllerContext, Task},
    controller_ref_manager::OwnerIndex,
    history::{self, RevisionStore},
    objects::StatefulSet,
    pods::event_handler::{self, PodEventHandler},
    resource::{PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS},
    status_throttle::StatusThrottle,
};

const WORKERS: usize = 8;

// upstream: pkg/controller/statefulset/stateful_set.go NewStatefulSetController
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let sets = context.informer::<StatefulSet>(&STATEFUL_SETS);
    let pods = context.pods();
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let expectations = Arc::new(ControllerExpectations::default());
    let forget = Arc::clone(&expectations);
    let event_handler = PodEventHandler::new(
        &STATEFUL_SETS,
        sets.store(),
        |set: &StatefulSet| &set.spec.selector.selector,
        matters,
        Arc::clone(&expectations),
    );
    let revision_store = RevisionStore::new(context, &STATEFUL_SETS);
    let revisions = revision_store.revisions.clone();
    let reconciler = StatefulSetController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone(),
        clock: context.clock.clone(),
        pods_by_owner: OwnerIndex::new(pods.store()),
        sets: sets.clone(),
        pods: pods.clone(),
        claims: claims.clone(),
        revision_store,
        expectations,
        status_throttle: StatusThrottle::default(),
    };
    let controller = context
        .controller("statefulset-controller")
        .for_(&sets)
        .watches(&sets, move |delta| {
            event_handler::forget_replaced_set(delta, &forget)
        })
        .watches(&pods, move |delta| event_handler.keys(delta))
        .watches(&revisions, |delta| history::sets_to_sync(&STATEFUL_SETS, delta))
        .watches(&claims, sets_waiting_for_claim)
        .workers(WORKERS);
    vec![Box::new(controller.reconciler(reconciler))]
}

/// Whether a pod change can change anything for a set.
fn matters(old: &Pod, new: &Pod) -> bool {
    event_handler::matters(old, new) || old.status.phase != new.status.phase
}

/// The sets that may wait for a claim to be deleted.
fn sets_waiting_for_claim(delta: &Delta<PersistentVolumeClaim>) -> Vec<Key> {
    let Delta::Deleted { last, .. } = delta else {
        return Vec::new();
    };
    let owners = last.metadata.owner_references.iter();
    let pods = owners.filter(|owner| &*owner.kind == "Pod");
    let sets = pods.filter_map(|pod| pod_identity::parent_name_and_ordinal(&pod.name));
    sets.map(|(set, _)| Key::new(&last.metadata.namespace, set))
        .collect()
}
