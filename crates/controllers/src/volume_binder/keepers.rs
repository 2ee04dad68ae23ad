//! A queue for claims and one for volumes.

use std::sync::Arc;

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
};
use serde_json::{Value, json};

use super::{
    binder::Binder,
    claims::{self, ClaimPlan},
    marks::DELETION_FINALIZER,
    volumes::{self, Reclaim, VolumePlan},
};
use crate::{
    event_message::EventMessage,
    objects::{ClaimPhase, PersistentVolume, PersistentVolumeClaim, VolumePhase},
    resource::PERSISTENT_VOLUMES,
    writer::ObjectRef,
};

/// Sees to claims.
pub(super) struct Claims(pub(super) Arc<Binder>);

/// Sees to volumes.
pub(super) struct Volumes(pub(super) Arc<Binder>);

// --- Claims ---

impl Reconciler for Claims {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let binder = &self.0;
        let Some(claim) = binder.claims.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        match claims::plan(&claim, &**binder) {
            ClaimPlan::Leave => {}
            ClaimPlan::Bind(volume) => binder.bind(claim, volume).await?,
            ClaimPlan::Wait(news) => {
                if let Some(news) = news {
                    binder.tell_of_claim(&claim, &news);
                }
                binder.claim_phase(claim, ClaimPhase::Pending, None).await?;
            }
            ClaimPlan::Assign(class) => {
                let patch = json!({"spec": {"storageClassName": class}});
                binder.write_claim(claim, "", patch).await?;
            }
            ClaimPlan::Ask(provisioner) => {
                let claim = binder.ask(claim, &provisioner).await?;
                let message = format_args!(
                    "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by \
                     the system administrator. If volume creation is delayed, please verify that the provisioner is \
                     running and correctly registered."
                );
                binder.tell_of_claim(&claim, &EventMessage::normal("ExternalProvisioning", message));
            }
            ClaimPlan::Tell(news) => binder.tell_of_claim(&claim, &news),
            ClaimPlan::Lose(news) => {
                let claim = binder.claim_phase(claim, ClaimPhase::Lost, None).await?;
                binder.tell_of_claim(&claim, &news);
            }
            ClaimPlan::Fail(news, why) => {
                binder.tell_of_claim(&claim, &news);
                return Err(Error::transient(why));
            }
        }
        Ok(Outcome::Done)
    }
}

// --- Volumes ---

impl Reconciler for Volumes {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let binder = &self.0;
        let Some(volume) = binder.volumes.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let claim = self.owner(&volume).await?;
        let plan = volumes::plan(&volume, claim.as_deref());
        if plan != VolumePlan::Release {
            binder.spare(&volume).await?;
        }
        match plan {
            VolumePlan::Leave => {}
            VolumePlan::Phase(phase) => {
                binder.phase(volume, phase, None).await?;
            }
            VolumePlan::Mismatch {
                volume: of_volume,
                claim: of_claim,
            } => {
                binder.tell_of_volume(&volume, &of_volume);
                if let Some(claim) = claim {
                    binder.tell_of_claim(&claim, &of_claim);
                }
            }
            VolumePlan::Unbind => binder.unbind(volume).await?,
            VolumePlan::Release => return self.release(volume).await,
        }
        Ok(Outcome::Done)
    }
}

impl Volumes {
    /// The claim that a volume is bound to, if it is there. Before a volume is released, the server is asked: what is not in
    /// the informer may be new.
    async fn owner(&self, volume: &PersistentVolume) -> kube::Result<Option<Arc<PersistentVolumeClaim>>> {
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
        Ok(self.0.fresh_claim(&key).await?.filter(is_owner))
    }

    async fn release(&self, volume: Arc<PersistentVolume>) -> Result<Outcome, Error> {
        let binder = &self.0;
        let volume = if is_released(&volume) {
            volume
        } else {
            binder.phase(volume, VolumePhase::Released, None).await?
        };
        match volumes::reclaim(&volume) {
            Reclaim::Leave => {}
            Reclaim::Fail(news) => {
                binder.phase(volume, VolumePhase::Failed, Some(&news)).await?;
            }
            Reclaim::Recycle => return binder.recycle(volume).await,
            Reclaim::Delete if volume.metadata.is_going() && !is_held(&volume) => {}
            Reclaim::Delete => self.delete(volume).await?,
        }
        Ok(Outcome::Done)
    }

    /// Deletes the object. The folder behind it is on a node, where only the node's agent can delete it.
    async fn delete(&self, volume: Arc<PersistentVolume>) -> Result<(), Error> {
        let binder = &self.0;
        let mut patch = json!({});
        if is_held(&volume) {
            let others = volume.metadata.finalizers.iter();
            let others: Vec<_> = others.filter(|other| &***other != DELETION_FINALIZER).collect();
            patch["metadata"] = json!({"finalizers": others});
        }
        let volume = binder.write_volume(volume, "", patch).await?;
        let meta = &volume.metadata;
        if meta.is_going() {
            return Ok(());
        }
        let seen = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
        let options: Value = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": seen});
        let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &meta.name);
        Ok(binder.writer.delete(object_ref, &options).await?)
    }
}

fn is_released(volume: &PersistentVolume) -> bool {
    matches!(volume.status.phase, VolumePhase::Released | VolumePhase::Failed)
}

/// Whether this controller holds it back from going.
fn is_held(volume: &PersistentVolume) -> bool {
    volume.metadata.has_finalizer(DELETION_FINALIZER)
}
