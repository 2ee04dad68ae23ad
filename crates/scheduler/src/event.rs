//! What happens in the cluster, and may make a pod fit that did not.

use crate::object::{Attachment, Capacity, Claim, CsiDriver, CsiNode, Node, Pod, StorageClass, Volume};

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// A node came.
    NodeCame(&'e Node),
    /// A node changed.
    NodeChanged {
        /// As it was.
        old: &'e Node,
        /// As it is.
        new: &'e Node,
    },
    /// A node went.
    NodeWent(&'e Node),
    /// A pod is on a node now.
    PodCame(&'e Pod),
    /// A pod on a node changed.
    PodChanged {
        /// As it was.
        old: &'e Pod,
        /// As it is.
        new: &'e Pod,
    },
    /// A pod is not on its node any more.
    PodWent(&'e Pod),
    /// The waiting pod itself changed.
    ItselfChanged {
        /// As it was.
        old: &'e Pod,
        /// As it is.
        new: &'e Pod,
    },
    /// A claim came or changed.
    Claim {
        /// As it was.
        old: Option<&'e Claim>,
        /// As it is.
        new: &'e Claim,
    },
    /// A volume came or changed.
    Volume {
        /// As it was.
        old: Option<&'e Volume>,
        /// As it is.
        new: &'e Volume,
    },
    /// A class came or changed.
    Class {
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
    Capacity {
        /// As it was.
        old: Option<&'e Capacity>,
        /// As it is.
        new: &'e Capacity,
    },
    /// An attachment went.
    AttachmentWent(&'e Attachment),
}

impl Event<'_> {
    /// What it is called in figures, in upstream's words.
    pub(crate) fn name(&self) -> &'static str {
        fn came<T>(old: Option<&T>, [came, changed]: [&'static str; 2]) -> &'static str {
            if old.is_none() { came } else { changed }
        }
        match *self {
            Event::NodeCame(_) => "NodeAdd",
            Event::NodeChanged { .. } => "NodeUpdate",
            Event::NodeWent(_) => "NodeDelete",
            Event::PodCame(_) => "AssignedPodAdd",
            Event::PodChanged { .. } => "AssignedPodUpdate",
            Event::PodWent(_) => "AssignedPodDelete",
            Event::ItselfChanged { .. } => "UnscheduledPodUpdate",
            Event::Claim { old, .. } => {
                came(old, ["PersistentVolumeClaimAdd", "PersistentVolumeClaimUpdate"])
            }
            Event::Volume { old, .. } => came(old, ["PersistentVolumeAdd", "PersistentVolumeUpdate"]),
            Event::Class { old, .. } => came(old, ["StorageClassAdd", "StorageClassUpdate"]),
            Event::CsiNode { old, .. } => came(old, ["CSINodeAdd", "CSINodeUpdate"]),
            Event::CsiDriver { .. } => "CSIDriverUpdate",
            Event::Capacity { old, .. } => came(old, ["CSIStorageCapacityAdd", "CSIStorageCapacityUpdate"]),
            Event::AttachmentWent(_) => "VolumeAttachmentDelete",
        }
    }
}
