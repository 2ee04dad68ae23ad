//! The kinds of the core group, a file each.

pub(crate) mod pod;
pub(crate) mod demand;
pub(crate) mod image;
pub(crate) mod label_selector;
pub(crate) mod node_selector;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod volume;

use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "Pod" => &pod::Pod,
        "PodTemplate" => &pod::PodTemplate,
        "PersistentVolume" => &persistent_volume::PersistentVolume,
        "PersistentVolumeClaim" => &persistent_volume_claim::PersistentVolumeClaim,
        _ => return None,
    })
}
