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
