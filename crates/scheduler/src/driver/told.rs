//! What the core is told.

use std::sync::Arc;

use kubecontroller::{informer::Delta, object::SlimObject};

use crate::{
    object::{
        Attachment, Budget, Capacity, Claim, CsiDriver, CsiNode, Kept, Namespace, Node, Pod, ReplicaSet,
        Service, StorageClass, Stored, Volume,
    },
    pool::Text,
};

/// An object came, changed or went.
#[derive(Debug)]
pub(super) struct Change<T> {
    /// As it was, if it was there.
    pub old: Option<Arc<T>>,
    /// As it is, if it is there.
    pub new: Option<Arc<T>>,
}

/// What the core is told.
#[derive(Debug)]
pub(super) enum Told {
    /// Of a pod.
    Pod(Change<Pod>),
    /// Of a node.
    Node(Change<Node>),
    /// Of a namespace.
    Namespace(Change<Namespace>),
    /// Of a claim.
    Claim(Change<Claim>),
    /// Of a volume.
    Volume(Change<Volume>),
    /// Of a class of storage.
    Class(Change<StorageClass>),
    /// Of the drivers of a node.
    CsiNode(Change<CsiNode>),
    /// Of a driver.
    CsiDriver(Change<CsiDriver>),
    /// Of a capacity.
    Capacity(Change<Capacity>),
    /// Of an attachment.
    Attachment(Change<Attachment>),
    /// Of a budget.
    Budget(Change<Budget>),
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

impl<T: Kept> Change<T> {
    /// What an informer tells; nothing when nothing changed.
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
