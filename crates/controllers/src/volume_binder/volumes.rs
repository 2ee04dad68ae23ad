//! What is to be done about a volume.

use super::marks::{MIGRATED_TO, PROVISIONED_BY};
use crate::{
    event_message::EventMessage,
    objects::{PersistentVolume, PersistentVolumeClaim, VolumePhase},
};

/// What is to be done about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumePlan {
    /// It is to be in this phase.
    Phase(VolumePhase),
    /// Its claim is gone.
    Release,
    /// It was bound to a claim that has another volume: it is free again.
    Unbind,
    /// The claim will be bound to it, or not; that is the claim's matter.
    Leave,
    /// It and its claim do not fit; both are told.
    Mismatch {
        /// What is told about the volume.
        volume: EventMessage,
        /// What is told about the claim.
        claim: EventMessage,
    },
}

/// What becomes of a volume that nobody claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reclaim {
    /// Nothing, or others see to it.
    Leave,
    /// It is deleted.
    Delete,
    /// It is wiped and free again.
    Recycle,
    /// That cannot be done.
    Fail(EventMessage),
}

/// What is to be done about a volume whose claim, if there is one with the same uid, is this.
pub(super) fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> VolumePlan {
    let owner = volume.spec.claim_ref.as_ref();
    if owner.is_none_or(|owner| owner.uid.is_empty()) {
        return VolumePlan::Phase(VolumePhase::Available);
    }
    let Some(claim) = claim else {
        return VolumePlan::Release;
    };
    let name = &volume.metadata.name;
    if claim.spec.volume_name.is_empty() {
        if claim.spec.volume_mode == volume.spec.volume_mode {
            return VolumePlan::Leave;
        }
        let tell = |message: String| EventMessage::warning("VolumeMismatch", message);
        return VolumePlan::Mismatch {
            volume: tell(format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
                claim.metadata.name
            )),
            claim: tell(format!(
                "Cannot bind PersistentVolume {name:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
            )),
        };
    }
    if claim.spec.volume_name == *name {
        return VolumePlan::Phase(VolumePhase::Bound);
    }
    let is_made = volume.metadata.annotation(PROVISIONED_BY).is_some();
    if is_made && &*volume.spec.reclaim_policy == "Delete" {
        return VolumePlan::Release;
    }
    VolumePlan::Unbind
}

/// What becomes of a volume that nobody claims.
pub(super) fn reclaim(volume: &PersistentVolume) -> Reclaim {
    let migrated = volume.metadata.annotation(MIGRATED_TO);
    if migrated.is_some_and(|driver| !driver.is_empty()) {
        return Reclaim::Leave;
    }
    match &*volume.spec.reclaim_policy {
        "Retain" => Reclaim::Leave,
        "Delete" => delete(volume),
        "Recycle" if volume.spec.host_path.is_some() || volume.spec.nfs.is_some() => Reclaim::Recycle,
        "Recycle" => Reclaim::Fail(EventMessage::warning(
            "VolumeFailedRecycle",
            "No recycler plugin found for the volume!",
        )),
        _ => Reclaim::Fail(EventMessage::warning(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        )),
    }
}

fn delete(volume: &PersistentVolume) -> Reclaim {
    const UNMATCHED: &str = "no deletable volume plugin matched";
    let fail = |why: String| Reclaim::Fail(EventMessage::warning("VolumeFailedDelete", why));
    let name = &volume.metadata.name;
    match volume.metadata.annotation(PROVISIONED_BY) {
        Some("" | "kubernetes.io/host-path") | None => {}
        Some("kubernetes.io/nfs") => return fail(UNMATCHED.to_owned()),
        Some(plugin) if plugin.starts_with("kubernetes.io/") => {
            return fail(format!("no volume plugin matched name: {plugin}"));
        }
        // Who has made it deletes it.
        Some(_) => return Reclaim::Leave,
    }
    let spec = &volume.spec;
    match &spec.host_path {
        _ if spec.csi.is_some() || volume.metadata.annotation(MIGRATED_TO).is_some() => Reclaim::Leave,
        Some(folder) if is_temporary(&folder.path) => Reclaim::Delete,
        Some(folder) => fail(format!(
            "host_path deleter only supports /tmp/.+ but received provided {}",
            folder.path
        )),
        None => {
            let why = if spec.nfs.is_some() {
                UNMATCHED
            } else {
                "no volume plugin matched"
            };
            fail(format!(
                "error getting deleter volume plugin for volume {name:?}: {why}"
            ))
        }
    }
}

/// Whether a folder is one that may be deleted without asking.
fn is_temporary(path: &str) -> bool {
    path.split_once("/tmp/")
        .is_some_and(|(_, inside)| !inside.is_empty())
}
