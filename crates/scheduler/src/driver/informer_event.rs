//! Informer events and results of writes, as the event loop receives them.

use std::sync::Arc;

use kubecontroller::{informer::Delta, object::Object};

use super::bind::BindError;
use crate::{
    interner::Text,
    object::{
        CsiDriver, CsiNode, CsiStorageCapacity, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
        Pod, PodDisruptionBudget, ReplicaSet, SchedulerObject, Service, StorageClass, StoredObject,
        VolumeAttachment,
    },
    scheduler_core::PreemptionOutcome,
};

/// An object was added, updated or deleted.
#[derive(Debug)]
pub(super) struct InformerChange<T> {
    /// As it was, if it was there.
    pub old: Option<Arc<T>>,
    /// As it is, if it is there.
    pub new: Option<Arc<T>>,
}

/// An event for the scheduler core.
#[derive(Debug)]
pub(super) enum InformerEvent {
    /// Of a pod.
    Pod(InformerChange<Pod>),
    /// Of a node.
    Node(InformerChange<Node>),
    /// Of a namespace.
    Namespace(InformerChange<Namespace>),
    /// Of a claim.
    PersistentVolumeClaim(InformerChange<PersistentVolumeClaim>),
    /// Of a volume.
    PersistentVolume(InformerChange<PersistentVolume>),
    /// Of a class of storage.
    Class(InformerChange<StorageClass>),
    /// Of the drivers of a node.
    CsiNode(InformerChange<CsiNode>),
    /// Of a driver.
    CsiDriver(InformerChange<CsiDriver>),
    /// Of a capacity.
    CsiStorageCapacity(InformerChange<CsiStorageCapacity>),
    /// Of an attachment.
    VolumeAttachment(InformerChange<VolumeAttachment>),
    /// Of a budget.
    PodDisruptionBudget(InformerChange<PodDisruptionBudget>),
    /// Of a service.
    Service(InformerChange<Service>),
    /// Of a `ReplicationController`.
    Controller(InformerChange<Service>),
    /// Of a `ReplicaSet` or a `StatefulSet`; the word is its kind.
    Set(&'static str, InformerChange<ReplicaSet>),
    /// A pod was bound, or could not be.
    Bound(Text, Result<(), BindError>),
    /// Others were pushed away for a pod, or could not be.
    Preempted(Text, PreemptionOutcome),
}

impl<T: SchedulerObject> InformerChange<T> {
    /// Converts an informer's delta; `None` if the object did not change.
    pub(super) fn of(delta: &Delta<StoredObject<T>>) -> Option<Self> {
        let kept = |object: &Arc<StoredObject<T>>| object.kept().cloned();
        let (old, new) = match delta {
            Delta::Added { new, .. } => (None, kept(new)),
            Delta::Updated { old, new } | Delta::Replaced { old, new } if is_changed(&**old, &**new) => {
                (kept(old), kept(new))
            }
            Delta::Updated { .. } | Delta::Replaced { .. } | Delta::Sync { .. } => return None,
            Delta::Deleted { last, .. } => (kept(last), None),
        };
        Some(InformerChange { old, new })
    }
}

/// Whether two states of an object differ.
pub(super) fn is_changed<T: Object>(old: &T, new: &T) -> bool {
    old.uid() != new.uid() || old.resource_version() != new.resource_version()
}
