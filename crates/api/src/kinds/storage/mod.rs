//! The kinds of the `storage.k8s.io` group, one file per kind.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod parameters;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

use crate::strategy::RestStrategy;

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "CSIDriver" => &csi_driver::CsiDriver,
        "CSINode" => &csi_node::CsiNode,
        "CSIStorageCapacity" => &csi_storage_capacity::CsiStorageCapacity,
        "StorageClass" => &storage_class::StorageClass,
        "VolumeAttachment" => &volume_attachment::VolumeAttachment,
        "VolumeAttributesClass" => &volume_attributes_class::VolumeAttributesClass,
        _ => return None,
    })
}
