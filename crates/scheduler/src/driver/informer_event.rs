//! Informer events and results of writes, as the event loop receives them.

use std::sync::Arc;

use kubecontroller::{informer::Delta, object::SlimObject};

use crate::{
    interner::Text,
    object::{
        CsiDriver, CsiNode, CsiStorageCapacity, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
        Pod, PodDisruptionBudget, ReplicaSet, SchedulerObject, Service, StorageClass, Stored,
        VolumeAttachment,
    },
};

/// An object was added, updated or deleted.
#[derive(Debug)]
pub(super) struct Change<T> {
    /// As it was, if it was there.
    pub old: Option<Arc<T>>,
    /// As it is, if it is there.
    pub new: Option<Arc<T>>,
}

/// An event for the scheduler core.
#[derive(Debug)]
pub(super) enum InformerEvent {
    /// Of a pod.
    Pod(Change<Pod>),
    /// Of a node.
    Node(Change<Node>),
    /// Of a namespace.
    Namespace(Change<Namespace>),
    /// Of a claim.
    PersistentVolumeClaim(Change<PersistentVolumeClaim>),
    /// Of a volume.
    PersistentVolume(Change<PersistentVolume>),
    /// Of a class of storage.
    Class(Change<StorageClass>),
    /// Of the drivers of a node.
    CsiNode(Change<CsiNode>),
    /// Of a driver.
    CsiDriver(Change<CsiDriver>),
    /// Of a capacity.
    CsiStorageCapacity(Change<CsiStorageCapacity>),
    /// Of an attachment.
    VolumeAttachment(Change<VolumeAttachment>),
    /// Of a budget.
    PodDisruptionBudget(Change<PodDisruptionBudget>),
    /// Of a service.
    Service(Change<Service>),
    /// Of a `ReplicationController`.
    Controller(Change<Service>),
    /// Of a `ReplicaSet` or a `StatefulSet`; the word is its kind.
    Set(&'static str, Change<ReplicaSet>),
    /// A pod was bound, or could not be.
    Bound(Text, Result<(), String>),
    /// Others were pushed away for a pod, or could not be.
    Preempted(Text, bool),
}

impl<T: SchedulerObject> Change<T> {
    /// Converts an informer's delta; `None` if the object did not change.
    pub(super) fn of(delta: &Delta<SlimObject<Stored<T>>>) -> Option<Self> {
        let kept = |object: &Arc<SlimObject<Stored<T>>>| object.fields.kept().cloned();
        let (old, new) = match delta {
            Delta::Added { new, .. } => (None, kept(new)),
            Delta::Updated { old, new } | Delta::Replaced { old, new } => {
                if old.metadata.uid != new.metadata.uid
                    || old.metadata.resource_version != new.metadata.resource_version
                {
                    (kept(old), kept(new))
                } else {
                    return None;
                }
            }
            Delta::Sync { .. } => return None,
            Delta::Deleted { last, .. } => (kept(last), None),
        };
        Some(Change { old, new })
    }
}
