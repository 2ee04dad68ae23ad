//! Cluster events that may make an unschedulable pod schedulable.

use crate::object::{
    CsiDriver, CsiNode, CsiStorageCapacity, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
    VolumeAttachment,
};

/// An event for the queueing hints of plugins.
// upstream: staging/src/k8s.io/kube-scheduler/framework/types.go ClusterEvent
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'e> {
    /// A node was added.
    NodeAdd(&'e Node),
    /// A node changed.
    NodeUpdate {
        /// As it was.
        old: &'e Node,
        /// As it is.
        new: &'e Node,
    },
    /// A node was deleted.
    NodeDelete(&'e Node),
    /// A pod is on a node now.
    AssignedPodAdd(&'e Pod),
    /// A pod on a node changed.
    AssignedPodUpdate {
        /// As it was.
        old: &'e Pod,
        /// As it is.
        new: &'e Pod,
    },
    /// A pod is not on its node any more.
    AssignedPodDelete(&'e Pod),
    /// The waiting pod itself changed.
    UnscheduledPodUpdate {
        /// As it was.
        old: &'e Pod,
        /// As it is.
        new: &'e Pod,
    },
    /// A claim was added or updated.
    PersistentVolumeClaim {
        /// As it was.
        old: Option<&'e PersistentVolumeClaim>,
        /// As it is.
        new: &'e PersistentVolumeClaim,
    },
    /// A volume was added or updated.
    PersistentVolume {
        /// As it was.
        old: Option<&'e PersistentVolume>,
        /// As it is.
        new: &'e PersistentVolume,
    },
    /// A storage class was added or updated.
    StorageClass {
        /// As it was.
        old: Option<&'e StorageClass>,
        /// As it is.
        new: &'e StorageClass,
    },
    /// A `CSINode` was added or updated.
    CsiNode {
        /// As they were.
        old: Option<&'e CsiNode>,
        /// As they are.
        new: &'e CsiNode,
    },
    /// A driver changed.
    CsiDriver {
        /// As it was.
        old: &'e CsiDriver,
        /// As it is.
        new: &'e CsiDriver,
    },
    /// A storage capacity was added or updated.
    CsiStorageCapacity {
        /// As it was.
        old: Option<&'e CsiStorageCapacity>,
        /// As it is.
        new: &'e CsiStorageCapacity,
    },
    /// A volume attachment was deleted.
    VolumeAttachmentDelete(&'e VolumeAttachment),
}

/// The kinds of [`ClusterEvent`], for which plugins register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterEventKind {
    /// [`ClusterEvent::NodeAdd`]
    NodeAdd,
    /// [`ClusterEvent::NodeUpdate`]
    NodeUpdate,
    /// [`ClusterEvent::NodeDelete`]
    NodeDelete,
    /// [`ClusterEvent::AssignedPodAdd`]
    AssignedPodAdd,
    /// [`ClusterEvent::AssignedPodUpdate`]
    AssignedPodUpdate,
    /// [`ClusterEvent::AssignedPodDelete`]
    AssignedPodDelete,
    /// [`ClusterEvent::UnscheduledPodUpdate`]
    UnscheduledPodUpdate,
    /// [`ClusterEvent::PersistentVolumeClaim`]
    PersistentVolumeClaim,
    /// [`ClusterEvent::PersistentVolume`]
    PersistentVolume,
    /// [`ClusterEvent::StorageClass`]
    StorageClass,
    /// [`ClusterEvent::CsiNode`]
    CsiNode,
    /// [`ClusterEvent::CsiDriver`]
    CsiDriver,
    /// [`ClusterEvent::CsiStorageCapacity`]
    CsiStorageCapacity,
    /// [`ClusterEvent::VolumeAttachmentDelete`]
    VolumeAttachmentDelete,
}

impl ClusterEvent<'_> {
    /// The kind of the event.
    pub fn kind(&self) -> ClusterEventKind {
        match self {
            ClusterEvent::NodeAdd(_) => ClusterEventKind::NodeAdd,
            ClusterEvent::NodeUpdate { .. } => ClusterEventKind::NodeUpdate,
            ClusterEvent::NodeDelete(_) => ClusterEventKind::NodeDelete,
            ClusterEvent::AssignedPodAdd(_) => ClusterEventKind::AssignedPodAdd,
            ClusterEvent::AssignedPodUpdate { .. } => ClusterEventKind::AssignedPodUpdate,
            ClusterEvent::AssignedPodDelete(_) => ClusterEventKind::AssignedPodDelete,
            ClusterEvent::UnscheduledPodUpdate { .. } => ClusterEventKind::UnscheduledPodUpdate,
            ClusterEvent::PersistentVolumeClaim { .. } => ClusterEventKind::PersistentVolumeClaim,
            ClusterEvent::PersistentVolume { .. } => ClusterEventKind::PersistentVolume,
            ClusterEvent::StorageClass { .. } => ClusterEventKind::StorageClass,
            ClusterEvent::CsiNode { .. } => ClusterEventKind::CsiNode,
            ClusterEvent::CsiDriver { .. } => ClusterEventKind::CsiDriver,
            ClusterEvent::CsiStorageCapacity { .. } => ClusterEventKind::CsiStorageCapacity,
            ClusterEvent::VolumeAttachmentDelete(_) => ClusterEventKind::VolumeAttachmentDelete,
        }
    }

    /// Upstream's event label in metrics.
    pub(crate) fn name(&self) -> &'static str {
        fn add_or_update<T>(old: Option<&T>, [add, update]: [&'static str; 2]) -> &'static str {
            if old.is_none() { add } else { update }
        }
        match *self {
            ClusterEvent::NodeAdd(_) => "NodeAdd",
            ClusterEvent::NodeUpdate { .. } => "NodeUpdate",
            ClusterEvent::NodeDelete(_) => "NodeDelete",
            ClusterEvent::AssignedPodAdd(_) => "AssignedPodAdd",
            ClusterEvent::AssignedPodUpdate { .. } => "AssignedPodUpdate",
            ClusterEvent::AssignedPodDelete(_) => "AssignedPodDelete",
            ClusterEvent::UnscheduledPodUpdate { .. } => "UnscheduledPodUpdate",
            ClusterEvent::PersistentVolumeClaim { old, .. } => {
                add_or_update(old, ["PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate"])
            }
            ClusterEvent::PersistentVolume { old, .. } => {
                add_or_update(old, ["PersistentVolumeAdd", "PersistentVolumeUpdate"])
            }
            ClusterEvent::StorageClass { old, .. } => {
                add_or_update(old, ["StorageClassAdd", "StorageClassUpdate"])
            }
            ClusterEvent::CsiNode { old, .. } => add_or_update(old, ["CSINodeAdd", "CSINodeUpdate"]),
            ClusterEvent::CsiDriver { .. } => "CSIDriverUpdate",
            ClusterEvent::CsiStorageCapacity { old, .. } => {
                add_or_update(old, ["CSIStorageCapacityAdd", "CSIStorageCapacityUpdate"])
            }
            ClusterEvent::VolumeAttachmentDelete(_) => "VolumeAttachmentDelete",
        }
    }
}
