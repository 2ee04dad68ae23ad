//! State and writes shared by the claim queue and the volume queue.

use std::sync::Arc;

use k3_workloads::{ClaimPhase, PersistentVolume, PersistentVolumeClaim, Pod, StorageRequest, VolumePhase};
use kubecontroller::{
    Key,
    events::EventRecorder,
    informer::Informer,
    resource::Resource,
    store::Index,
    store::Store,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    annotations::{BETA_STORAGE_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, STORAGE_PROVISIONER},
    claims::ClaimEnvironment,
    matching::best_match,
    write_cache::WriteCache,
};
use crate::{
    context::ControllerContext,
    event_message::EventMessage,
    objects::{BindingMode, StorageClass},
    patch_values::list,
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES},
    update::UpdateWithPatch,
};

/// Source of this controller's events.
const COMPONENT: &str = "persistentvolume-controller";

// upstream: pkg/controller/volume/persistentvolume/pv_controller.go PersistentVolumeController
pub(super) struct PersistentVolumeController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) volumes: WriteCache<PersistentVolume>,
    pub(super) claims: WriteCache<PersistentVolumeClaim>,
    pub(super) pods: Store<Pod>,
    pods_by_claim: Index<Pod>,
    classes: Store<StorageClass>,
    by_class: Index<PersistentVolume>,
    by_claim: Index<PersistentVolume>,
}

/// The informers.
pub(super) struct VolumeInformers {
    pub(super) volumes: Informer<PersistentVolume>,
    pub(super) claims: Informer<PersistentVolumeClaim>,
    pub(super) classes: Informer<StorageClass>,
    pub(super) pods: Informer<Pod>,
}

// --- VolumeInformers ---

impl VolumeInformers {
    pub(super) fn new(context: &ControllerContext) -> Self {
        VolumeInformers {
            volumes: context.informer(&PERSISTENT_VOLUMES),
            claims: context.informer(&PERSISTENT_VOLUME_CLAIMS),
            classes: context.informer(&STORAGE_CLASSES),
            pods: context.pods(),
        }
    }

    /// Volumes by the key of their claim, including those that are only pre-bound to it.
    pub(super) fn volumes_by_claim(&self) -> Index<PersistentVolume> {
        self.volumes.store().shared_index("claim", |volume| {
            let owner = volume.spec.claim_ref.as_ref();
            let owner = owner.map(|owner| Key::new(&owner.namespace, &owner.name));
            owner.map(|key| key.as_str().to_owned()).into_iter().collect()
        })
    }
}

// --- PersistentVolumeController ---

impl PersistentVolumeController {
    pub(super) fn new(context: &ControllerContext, sources: &VolumeInformers) -> Self {
        PersistentVolumeController {
            writer: context.writer.clone(),
            recorder: context.recorder.clone().component(COMPONENT),
            volumes: WriteCache::new(&sources.volumes),
            claims: WriteCache::new(&sources.claims),
            pods: sources.pods.store().clone(),
            pods_by_claim: context.pods_by_claim(),
            classes: sources.classes.store().clone(),
            by_class: (sources.volumes.store()).index(|volume| match &volume.spec.claim_ref {
                None => vec![volume.class().to_owned()],
                Some(_) => Vec::new(),
            }),
            by_claim: sources.volumes_by_claim(),
        }
    }

    /// Pods that use a claim and have not terminated.
    pub(super) fn users(&self, claim: &Key) -> Vec<Arc<Pod>> {
        let mut pods = self.pods_by_claim.get(claim.as_str());
        pods.retain(|pod| !pod.has_ended());
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        pods
    }

    pub(super) fn record_claim_event(&self, claim: &PersistentVolumeClaim, event: &EventMessage) {
        event.record(
            &self.recorder,
            &claim.metadata.reference(&PERSISTENT_VOLUME_CLAIMS),
        );
    }

    pub(super) fn record_volume_event(&self, volume: &PersistentVolume, event: &EventMessage) {
        event.record(&self.recorder, &volume.metadata.reference(&PERSISTENT_VOLUMES));
    }

    /// Binds a claim and a volume. Steps that are already done are skipped; after a crash, or on the events of these writes, the
    /// missing ones are done. The volume is written first: it can have one claim only, so that of two competing claims one fails
    /// before anything was promised to it.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go bind
    pub(super) async fn bind(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        volume: Arc<PersistentVolume>,
    ) -> kube::Result<()> {
        let volume = self.bind_volume_to_claim(volume, &claim).await?;
        let volume = self.update_volume_phase(volume, VolumePhase::Bound, None).await?;
        let claim = self.bind_claim_to_volume(claim, &volume).await?;
        self.update_claim_phase(claim, ClaimPhase::Bound, Some(&volume))
            .await?;
        Ok(())
    }

    /// Sets claimRef of the volume.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go bindVolumeToClaim
    async fn bind_volume_to_claim(
        &self,
        volume: Arc<PersistentVolume>,
        claim: &PersistentVolumeClaim,
    ) -> kube::Result<Arc<PersistentVolume>> {
        let owner = volume.spec.claim_ref.as_ref();
        let is_owned = volume.is_for(claim) && owner.is_some_and(|owner| owner.uid == claim.metadata.uid);
        let mut patch = json!({});
        if !is_owned {
            patch["spec"] = json!({"claimRef": claim.metadata.reference(&PERSISTENT_VOLUME_CLAIMS)});
        }
        if !volume.is_for(claim) && volume.metadata.annotation(BOUND_BY_CONTROLLER).is_none() {
            patch["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER: "yes"}});
        }
        self.write_volume(volume, "", patch).await
    }

    /// Sets volumeName of the claim.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go bindClaimToVolume
    async fn bind_claim_to_volume(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        volume: &PersistentVolume,
    ) -> kube::Result<Arc<PersistentVolumeClaim>> {
        let mut patch = json!({});
        let mut marks = serde_json::Map::new();
        let mut mark = |name: &str| {
            if claim.metadata.annotation(name).is_none() {
                marks.insert(name.to_owned(), "yes".into());
            }
        };
        if claim.spec.volume_name != volume.metadata.name {
            patch["spec"] = json!({"volumeName": volume.metadata.name});
            mark(BOUND_BY_CONTROLLER);
        }
        mark(BIND_COMPLETED);
        if !marks.is_empty() {
            patch["metadata"] = json!({"annotations": marks});
        }
        self.write_claim(claim, "", patch).await
    }

    /// Unbinds a volume; claimRef of a volume pre-bound by a user is kept without the UID.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go unbindVolume
    pub(super) async fn unbind(&self, volume: Arc<PersistentVolume>) -> kube::Result<()> {
        let patch = if volume.metadata.annotation(BOUND_BY_CONTROLLER).is_some() {
            json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}})
        } else {
            json!({"spec": {"claimRef": {"uid": null}}})
        };
        let volume = self.write_volume(volume, "", patch).await?;
        self.update_volume_phase(volume, VolumePhase::Available, None)
            .await?;
        Ok(())
    }

    /// Asks an external provisioner for a volume.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go provisionClaimOperationExternal
    pub(super) async fn request_external_provisioning(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        provisioner: &str,
    ) -> kube::Result<Arc<PersistentVolumeClaim>> {
        if claim.metadata.annotation(STORAGE_PROVISIONER) == Some(provisioner) {
            return Ok(claim);
        }
        let marks = json!({STORAGE_PROVISIONER: provisioner, BETA_STORAGE_PROVISIONER: provisioner});
        let patch = json!({"metadata": {"annotations": marks}});
        self.write_claim(claim, "", patch).await
    }

    /// Sets the phase of a volume, with an event if it changes.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go updateVolumePhaseWithEvent
    pub(super) async fn update_volume_phase(
        &self,
        volume: Arc<PersistentVolume>,
        phase: VolumePhase,
        why: Option<&EventMessage>,
    ) -> kube::Result<Arc<PersistentVolume>> {
        if volume.status.phase == phase {
            return Ok(volume);
        }
        let message = why.map(EventMessage::message);
        let patch = json!({"status": {"phase": phase, "message": message}});
        let volume = self.write_volume(volume, "status", patch).await?;
        if let Some(event) = why {
            self.record_volume_event(&volume, event);
        }
        Ok(volume)
    }

    /// Sets the phase of a claim, and the properties of its volume.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go updateClaimStatusWithEvent
    pub(super) async fn update_claim_phase(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        phase: ClaimPhase,
        volume: Option<&PersistentVolume>,
    ) -> kube::Result<Arc<PersistentVolumeClaim>> {
        let patch = claim_status(&claim, phase, volume);
        self.write_claim(claim, "status", patch).await
    }

    /// Patches a volume at its resourceVersion, unless the patch is empty.
    pub(super) async fn write_volume(
        &self,
        volume: Arc<PersistentVolume>,
        part: &str,
        patch: Value,
    ) -> kube::Result<Arc<PersistentVolume>> {
        let Some(patch) = with_resource_version(patch, &volume.metadata.resource_version) else {
            return Ok(volume);
        };
        let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &volume.metadata.name).subresource(part);
        Ok(self.volumes.record_write(self.write(object_ref, &patch).await?))
    }

    /// Patches a claim in the same way.
    pub(super) async fn write_claim(
        &self,
        claim: Arc<PersistentVolumeClaim>,
        part: &str,
        patch: Value,
    ) -> kube::Result<Arc<PersistentVolumeClaim>> {
        let meta = &claim.metadata;
        let Some(patch) = with_resource_version(patch, &meta.resource_version) else {
            return Ok(claim);
        };
        let object_ref =
            ObjectRef::new(&PERSISTENT_VOLUME_CLAIMS, &meta.namespace, &meta.name).subresource(part);
        Ok(self.claims.record_write(self.write(object_ref, &patch).await?))
    }

    /// The account may patch statuses, and only update the objects.
    async fn write<T: DeserializeOwned>(&self, object_ref: ObjectRef<'_>, patch: &Value) -> kube::Result<T> {
        match object_ref.subresource {
            "status" => self.writer.merge_patch(object_ref, patch).await,
            _ => self.writer.update_with_merge(object_ref, patch).await,
        }
    }

    /// Reads a claim from the server.
    pub(super) async fn read_claim(&self, key: &Key) -> kube::Result<Option<Arc<PersistentVolumeClaim>>> {
        let resource: &Resource = &PERSISTENT_VOLUME_CLAIMS;
        match self
            .writer
            .get(ObjectRef::new(resource, key.namespace(), key.name()))
            .await
        {
            Ok(claim) => Ok(Some(Arc::new(claim))),
            Err(error) if has_status_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl ClaimEnvironment for PersistentVolumeController {
    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get(&Key::new("", name))
    }

    fn best_match(&self, claim: &PersistentVolumeClaim, mode: BindingMode) -> Option<Arc<PersistentVolume>> {
        let meta = &claim.metadata;
        let meant = self.by_claim.get(Key::new(&meta.namespace, &meta.name).as_str());
        let free = self.by_class.get(claim.class());
        let volumes = meant.into_iter().chain(free);
        best_match(claim, mode, volumes.map(|volume| self.volumes.latest(volume)))
    }

    fn class(&self, name: &str) -> Option<Arc<StorageClass>> {
        self.classes.get(&Key::new("", name))
    }

    fn default_class(&self) -> Option<Arc<StorageClass>> {
        let classes = self.classes.all().into_iter();
        let defaults = classes.filter(|class| class.is_default());
        // The newest; of several, the first by name.
        defaults.min_by(|one, other| {
            let one = &one.metadata;
            let other = &other.metadata;
            let newest_first = other.creation_timestamp.cmp(&one.creation_timestamp);
            newest_first.then_with(|| one.name.cmp(&other.name))
        })
    }

    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go findNonScheduledPodsByPVC
    fn waiting_pods(&self, claim: &PersistentVolumeClaim) -> Vec<Box<str>> {
        let meta = &claim.metadata;
        let pods = self.users(&Key::new(&meta.namespace, &meta.name)).into_iter();
        let waiting = pods.filter(|pod| pod.spec.node_name.is_empty());
        waiting.map(|pod| pod.metadata.name.clone()).collect()
    }
}

/// Adds the resourceVersion to a patch; `None` if the patch is empty.
fn with_resource_version(mut patch: Value, version: &str) -> Option<Value> {
    if patch.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    patch["metadata"]["resourceVersion"] = version.into();
    Some(patch)
}

/// The status changes of a claim. Capacity is set when the claim becomes bound, and not touched after that: a file system may
/// be smaller than its device.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go updateClaimStatus
fn claim_status(
    claim: &PersistentVolumeClaim,
    phase: ClaimPhase,
    volume: Option<&PersistentVolume>,
) -> Value {
    const RESIZED_FROM: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
    let status = &claim.status;
    let mut new = serde_json::Map::new();
    let mut put = |name: &str, value: Value| new.insert(name.to_owned(), value);
    if status.phase != phase {
        put("phase", json!(phase));
    }
    let modes = volume.map_or(&[][..], |volume| &volume.spec.access_modes);
    if *status.access_modes != *modes {
        put("accessModes", list(modes));
    }
    match volume {
        None => {
            if status.capacity.is_some() {
                put("capacity", Value::Null);
            }
            if status.current_volume_attributes_class_name.is_some() {
                put("currentVolumeAttributesClassName", Value::Null);
            }
        }
        Some(volume) if status.phase != phase => {
            let held = status.capacity.as_ref().map(StorageRequest::amount);
            let before = volume.metadata.annotation(RESIZED_FROM);
            let before = before.filter(|text| text.parse::<k3_api::quantity::Quantity>().is_ok());
            if let Some(before) = before {
                put("capacity", json!({"storage": before}));
            } else if held != Some(volume.spec.capacity.amount()) {
                put("capacity", json!({"storage": volume.spec.capacity.storage}));
            }
            let class = &volume.spec.volume_attributes_class_name;
            if status.phase == ClaimPhase::Pending && status.current_volume_attributes_class_name != *class {
                put("currentVolumeAttributesClassName", json!(class));
            }
        }
        Some(_) => {}
    }
    if new.is_empty() {
        json!({})
    } else {
        json!({"status": new})
    }
}
