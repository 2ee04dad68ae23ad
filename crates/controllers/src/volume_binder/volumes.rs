//! Decides what to do about a volume.

use k3_workloads::{PersistentVolume, PersistentVolumeClaim, VolumePhase};

use super::annotations::{MIGRATED_TO, PROVISIONED_BY};
use crate::event_message::EventMessage;

/// What to do about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum VolumeDecision {
    /// Set this phase.
    Phase(VolumePhase),
    /// Its claim was deleted.
    Release,
    /// Its claim is bound to another volume.
    Unbind,
    /// Nothing: syncing the claim decides.
    Leave,
    /// The volumeMode does not match; an event for each of them.
    Mismatch {
        /// Event for the volume.
        volume: EventMessage,
        /// Event for the claim.
        claim: EventMessage,
    },
}

/// How a released volume is reclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReclaimMethod {
    /// Not by this controller.
    Leave,
    Delete,
    /// Scrub it and make it available.
    Recycle,
    /// Impossible.
    Fail(EventMessage),
}

/// Decides for a volume and its claim, if one with the same UID exists.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncVolume
pub(super) fn decide_volume(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
) -> VolumeDecision {
    let owner = volume.spec.claim_ref.as_ref();
    if owner.is_none_or(|owner| owner.uid.is_empty()) {
        return VolumeDecision::Phase(VolumePhase::Available);
    }
    let Some(claim) = claim else {
        return VolumeDecision::Release;
    };
    let name = &volume.metadata.name;
    if claim.spec.volume_name.is_empty() {
        if claim.spec.volume_mode == volume.spec.volume_mode {
            return VolumeDecision::Leave;
        }
        let record = |message: String| EventMessage::warning("VolumeMismatch", message);
        return VolumeDecision::Mismatch {
            volume: record(format!(
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
                claim.metadata.name
            )),
            claim: record(format!(
                "Cannot bind PersistentVolume {name:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
            )),
        };
    }
    if claim.spec.volume_name == *name {
        return VolumeDecision::Phase(VolumePhase::Bound);
    }
    let is_made = volume.metadata.annotation(PROVISIONED_BY).is_some();
    if is_made && &*volume.spec.reclaim_policy == "Delete" {
        return VolumeDecision::Release;
    }
    VolumeDecision::Unbind
}

/// How a released volume is reclaimed.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go reclaimVolume
pub(super) fn reclaim(volume: &PersistentVolume) -> ReclaimMethod {
    let migrated = volume.metadata.annotation(MIGRATED_TO);
    if migrated.is_some_and(|driver| !driver.is_empty()) {
        return ReclaimMethod::Leave;
    }
    match &*volume.spec.reclaim_policy {
        "Retain" => ReclaimMethod::Leave,
        "Delete" => delete_decision(volume),
        "Recycle" if volume.spec.host_path.is_some() || volume.spec.nfs.is_some() => ReclaimMethod::Recycle,
        "Recycle" => ReclaimMethod::Fail(EventMessage::warning(
            "VolumeFailedRecycle",
            "No recycler plugin found for the volume!",
        )),
        _ => ReclaimMethod::Fail(EventMessage::warning(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy",
        )),
    }
}

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go deleteVolumeOperation, findDeletablePlugin
fn delete_decision(volume: &PersistentVolume) -> ReclaimMethod {
    const UNMATCHED: &str = "no deletable volume plugin matched";
    let fail = |why: String| ReclaimMethod::Fail(EventMessage::warning("VolumeFailedDelete", why));
    let name = &volume.metadata.name;
    match volume.metadata.annotation(PROVISIONED_BY) {
        Some("" | "kubernetes.io/host-path") | None => {}
        Some("kubernetes.io/nfs") => return fail(UNMATCHED.to_owned()),
        Some(plugin) if plugin.starts_with("kubernetes.io/") => {
            return fail(format!("no volume plugin matched name: {plugin}"));
        }
        // The external provisioner deletes it.
        Some(_) => return ReclaimMethod::Leave,
    }
    let spec = &volume.spec;
    match &spec.host_path {
        _ if spec.csi.is_some() || volume.metadata.annotation(MIGRATED_TO).is_some() => ReclaimMethod::Leave,
        Some(directory) if is_under_tmp(&directory.path) => ReclaimMethod::Delete,
        Some(directory) => fail(format!(
            "host_path deleter only supports /tmp/.+ but received provided {}",
            directory.path
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

/// Whether a hostPath may be deleted: under /tmp, for tests.
fn is_under_tmp(path: &str) -> bool {
    path.split_once("/tmp/").is_some_and(|(_, rest)| !rest.is_empty())
}
