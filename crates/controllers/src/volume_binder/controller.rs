//! The reconcilers of claims and volumes.

use std::sync::Arc;

use k3_workloads::{ClaimPhase, PersistentVolume, PersistentVolumeClaim, VolumePhase};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    writer::ObjectRef,
};
use serde_json::{Value, json};

use super::{
    annotations::DELETION_FINALIZER,
    binder::PersistentVolumeController,
    claims::{self, ClaimDecision},
    volumes::{self, ReclaimMethod, VolumeDecision},
};
use crate::{event_message::EventMessage, resource::PERSISTENT_VOLUMES};

// upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go syncClaimByKey, updateClaim
pub(super) struct ClaimReconciler(pub(super) Arc<PersistentVolumeController>);

// upstream: pkg/controller/volume/persistentvolume/pv_controller_base.go syncVolumeByKey, updateVolume
pub(super) struct VolumeReconciler(pub(super) Arc<PersistentVolumeController>);

// --- ClaimReconciler ---

impl Reconciler for ClaimReconciler {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let controller = &self.0;
        let Some(claim) = controller.claims.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        match claims::decide_claim(&claim, &**controller) {
            ClaimDecision::Leave => {}
            ClaimDecision::Bind(volume) => controller.bind(claim, volume).await?,
            ClaimDecision::Wait(event) => {
                if let Some(event) = event {
                    controller.record_claim_event(&claim, &event);
                }
                controller
                    .update_claim_phase(claim, ClaimPhase::Pending, None)
                    .await?;
            }
            ClaimDecision::AssignDefaultClass(class) => {
                let patch = json!({"spec": {"storageClassName": class}});
                controller.write_claim(claim, "", patch).await?;
            }
            ClaimDecision::Provision(provisioner) => {
                let claim = controller
                    .request_external_provisioning(claim, &provisioner)
                    .await?;
                let message = format_args!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
                     the system administrator. If volume creation is delayed, please verify that the provisioner is \
                     running and correctly registered."
                );
                controller.record_claim_event(&claim, &EventMessage::normal("ExternalProvisioning", message));
            }
            ClaimDecision::RecordEvent(event) => controller.record_claim_event(&claim, &event),
            ClaimDecision::MarkLost(event) => {
                let claim = controller
                    .update_claim_phase(claim, ClaimPhase::Lost, None)
                    .await?;
                controller.record_claim_event(&claim, &event);
            }
            ClaimDecision::Fail(event, why) => {
                controller.record_claim_event(&claim, &event);
                return Err(Error::transient(why));
            }
        }
        Ok(Outcome::Done)
    }
}

// --- VolumeReconciler ---

impl Reconciler for VolumeReconciler {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let controller = &self.0;
        let Some(volume) = controller.volumes.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let claim = self.claim_of_volume(&volume).await?;
        let plan = volumes::decide_volume(&volume, claim.as_deref());
        if plan != VolumeDecision::Release {
            controller.delete_recycler_pod(&volume).await?;
        }
        match plan {
            VolumeDecision::Leave => {}
            VolumeDecision::Phase(phase) => {
                controller.update_volume_phase(volume, phase, None).await?;
            }
            VolumeDecision::Mismatch {
                volume: of_volume,
                claim: of_claim,
            } => {
                controller.record_volume_event(&volume, &of_volume);
                if let Some(claim) = claim {
                    controller.record_claim_event(&claim, &of_claim);
                }
            }
            VolumeDecision::Unbind => controller.unbind(volume).await?,
            VolumeDecision::Release => return self.reclaim_volume(volume).await,
        }
        Ok(Outcome::Done)
    }
}

impl VolumeReconciler {
    /// The claim of a volume, if it exists. Before a volume is released, the server is asked: the claim may not be in the
    /// informer's cache yet.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncVolume
    async fn claim_of_volume(
        &self,
        volume: &PersistentVolume,
    ) -> kube::Result<Option<Arc<PersistentVolumeClaim>>> {
        let Some(owner) = volume
            .spec
            .claim_ref
            .as_ref()
            .filter(|owner| !owner.uid.is_empty())
        else {
            return Ok(None);
        };
        let key = Key::new(&owner.namespace, &owner.name);
        let is_owner = |claim: &Arc<PersistentVolumeClaim>| claim.metadata.uid == owner.uid;
        match self.0.claims.get(&key) {
            Some(claim) if is_owner(&claim) => return Ok(Some(claim)),
            None if is_released(volume) => return Ok(None),
            _ => {}
        }
        Ok(self.0.read_claim(&key).await?.filter(is_owner))
    }

    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go reclaimVolume
    async fn reclaim_volume(&self, volume: Arc<PersistentVolume>) -> Result<Outcome, Error> {
        let controller = &self.0;
        let volume = if is_released(&volume) {
            volume
        } else {
            controller
                .update_volume_phase(volume, VolumePhase::Released, None)
                .await?
        };
        match volumes::reclaim(&volume) {
            ReclaimMethod::Leave => {}
            ReclaimMethod::Fail(event) => {
                controller
                    .update_volume_phase(volume, VolumePhase::Failed, Some(&event))
                    .await?;
            }
            ReclaimMethod::Recycle => return controller.recycle(volume).await,
            ReclaimMethod::Delete if volume.metadata.is_terminating() && !has_deletion_finalizer(&volume) => {
            }
            ReclaimMethod::Delete => self.delete_volume(volume).await?,
        }
        Ok(Outcome::Done)
    }

    /// Deletes the PersistentVolume object. The directory behind it is on a node, where only the kubelet can delete it.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go deleteVolumeOperation, doDeleteVolume
    async fn delete_volume(&self, volume: Arc<PersistentVolume>) -> Result<(), Error> {
        let controller = &self.0;
        let mut patch = json!({});
        if has_deletion_finalizer(&volume) {
            let others = volume.metadata.finalizers.iter();
            let others: Vec<_> = others.filter(|other| &***other != DELETION_FINALIZER).collect();
            patch["metadata"] = json!({"finalizers": others});
        }
        let volume = controller.write_volume(volume, "", patch).await?;
        let meta = &volume.metadata;
        if meta.is_terminating() {
            return Ok(());
        }
        let seen = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
        let options: Value = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen});
        let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &meta.name);
        Ok(controller.writer.delete(object_ref, &options).await?)
    }
}

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go isVolumeReleased
fn is_released(volume: &PersistentVolume) -> bool {
    matches!(volume.status.phase, VolumePhase::Released | VolumePhase::Failed)
}

/// Whether it has this controller's finalizer.
fn has_deletion_finalizer(volume: &PersistentVolume) -> bool {
    volume.metadata.has_finalizer(DELETION_FINALIZER)
}
