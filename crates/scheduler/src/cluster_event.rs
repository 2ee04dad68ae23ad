//! What happens in the cluster, and may make a pod fit that did not.

use crate::object::{
    CsiDriver, CsiNode, CsiStorageCapacity, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass,
    VolumeAttachment,
};

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum ClusterEvent<'e> {
    /// A node came.
    NodeAdd(&'e Node),
    /// A node changed.
    NodeUpdate {
        /// As it was.
        old: &'e Node,
        /// As it is.
        new: &'e Node,
    },
    /// A node went.
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
    /// A claim came or changed.
    PersistentVolumeClaim {
        /// As it was.
        old: Option<&'e PersistentVolumeClaim>,
        /// As it is.
        new: &'e PersistentVolumeClaim,
    },
    /// A volume came or changed.
    PersistentVolume {
        /// As it was.
        old: Option<&'e PersistentVolume>,
        /// As it is.
        new: &'e PersistentVolume,
    },
    /// A class came or changed.
    StorageClass {
        /// As it was.
        old: Option<&'e StorageClass>,
        /// As it is.
        new: &'e StorageClass,
    },
    /// The drivers of a node came or changed.
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
    /// A capacity came or changed.
    CsiStorageCapacity {
        /// As it was.
        old: Option<&'e CsiStorageCapacity>,
        /// As it is.
        new: &'e CsiStorageCapacity,
    },
    /// An attachment went.
    VolumeAttachmentDelete(&'e VolumeAttachment),
}

impl ClusterEvent<'_> {
    /// What it is called in figures, in upstream's words.
    pub(crate) fn name(&self) -> &'static str {
        fn came<T>(old: Option<&T>, [came, changed]: [&'static str; 2]) -> &'static str {
            if old.is_none() { came } else { changed }
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
                came(old, ["PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate"])
            }
            ClusterEvent::PersistentVolume { old, .. } => {
                came(old, ["PersistentVolumeAdd", "PersistentVolumeUpdate"])
            }
            ClusterEvent::StorageClass { old, .. } => came(old, ["StorageClassAdd", "StorageClassUpdate"]),
            ClusterEvent::CsiNode { old, .. } => came(old, ["CSINodeAdd", "CSINodeUpdate"]),
            ClusterEvent::CsiDriver { .. } => "CSIDriverUpdate",
            ClusterEvent::CsiStorageCapacity { old, .. } => {
                came(old, ["CSIStorageCapacityAdd", "CSIStorageCapacityUpdate"])
            }
            ClusterEvent::VolumeAttachmentDelete(_) => "VolumeAttachmentDelete",
        }
    }
}
