//! Volumes that are wiped after their claim is deleted: a recycler pod deletes their contents.

use std::{sync::Arc, time::Duration};

use k3_workloads::{PersistentVolume, Pod, PodPhase, VolumePhase};
use kubecontroller::{
    Key,
    controller::{Error, Outcome},
    writer::{ObjectRef, delete_options_for_uid, error_message, is_already_exists},
};
use serde_json::{Value, json};

use super::binder::PersistentVolumeController;
use crate::{
    event_message::EventMessage,
    resource::{PERSISTENT_VOLUMES, PODS},
};

/// Where the pods are.
const NAMESPACE: &str = "default";
/// What their names begin with; the rest is the name of the volume.
const NAME: &str = "recycler-for-";
const IMAGE: &str = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6";
const SCRIPT: &str =
    "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";
/// Retry delay after a failure, or while the volume is in use.
const RETRY_DELAY: Duration = Duration::from_secs(15);
/// Timeout of the recycler pod per GiB.
const SECONDS_PER_GIBIBYTE: i64 = 30;

/// The volume that a recycler pod scrubs.
pub(super) fn volume_of(pod: &Pod) -> Vec<Key> {
    let name = pod.metadata.name.strip_prefix(NAME);
    let name = name.filter(|_| &*pod.metadata.namespace == NAMESPACE);
    name.map(|name| Key::new("", name)).into_iter().collect()
}

// --- PersistentVolumeController ---

impl PersistentVolumeController {
    /// Scrubs a volume, and makes it available afterwards.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go recycleVolumeOperation
    pub(super) async fn recycle(&self, volume: Arc<PersistentVolume>) -> Result<Outcome, Error> {
        if let Some(users) = self.users_of_deleted_claim(&volume) {
            let message = format_args!("Volume is used by pods: {}", users.join(","));
            self.record_volume_event(&volume, &EventMessage::normal("VolumeFailedRecycle", message));
            return Ok(Outcome::RequeueAfter(RETRY_DELAY));
        }
        let name = format!("{NAME}{}", volume.metadata.name);
        let Some(pod) = self.pods.get(&Key::new(NAMESPACE, &name)) else {
            return self.start_recycler_pod(&volume, &name).await;
        };
        if !pod.has_ended() {
            return Ok(Outcome::Done);
        }
        let object_ref = ObjectRef::new(&PODS, NAMESPACE, &name);
        self.writer
            .delete(object_ref, &delete_options_for_uid(&pod.metadata.uid))
            .await?;
        if pod.status.phase == PodPhase::Succeeded {
            self.record_volume_event(
                &volume,
                &EventMessage::normal("VolumeRecycled", "Volume recycled"),
            );
            self.unbind(volume).await?;
            return Ok(Outcome::Done);
        }
        self.record_recycle_failure(
            volume,
            "failed to recycle volume: pod failed, pod.Status.Message unknown",
        )
        .await
    }

    /// Deletes the recycler pod of a volume that must not be scrubbed.
    pub(super) async fn delete_recycler_pod(&self, volume: &PersistentVolume) -> kube::Result<()> {
        let name = format!("{NAME}{}", volume.metadata.name);
        match self.pods.get(&Key::new(NAMESPACE, &name)) {
            Some(pod) if !pod.metadata.is_terminating() => {
                let object_ref = ObjectRef::new(&PODS, NAMESPACE, &name);
                self.writer
                    .delete(object_ref, &delete_options_for_uid(&pod.metadata.uid))
                    .await
            }
            _ => Ok(()),
        }
    }

    async fn start_recycler_pod(&self, volume: &Arc<PersistentVolume>, name: &str) -> Result<Outcome, Error> {
        // The volume source is not in the cache; the few volumes to recycle are read from the server.
        let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &volume.metadata.name);
        let whole: Value = self.writer.get(object_ref).await?;
        // The volume may have been bound meanwhile.
        if whole["metadata"]["resourceVersion"] != *volume.metadata.resource_version {
            return Ok(Outcome::RequeueAfter(RETRY_DELAY));
        }
        let pod = recycler_pod(volume, &whole["spec"], name);
        match self.writer.create::<Value>(&PODS, NAMESPACE, &pod).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if is_already_exists(&error) => Ok(Outcome::RequeueAfter(RETRY_DELAY)),
            Err(error) => {
                let why = format!(
                    "unexpected error creating recycler pod:  {}",
                    error_message(&error)
                );
                self.record_recycle_failure(volume.clone(), &why).await
            }
        }
    }

    async fn record_recycle_failure(
        &self,
        volume: Arc<PersistentVolume>,
        why: &str,
    ) -> Result<Outcome, Error> {
        let event = EventMessage::warning("VolumeFailedRecycle", format_args!("Recycle failed: {why}"));
        self.update_volume_phase(volume, VolumePhase::Failed, Some(&event))
            .await?;
        Ok(Outcome::RequeueAfter(RETRY_DELAY))
    }

    /// Pods that still use the deleted claim. If a claim of that name exists again, they use that one.
    // upstream: pkg/controller/volume/persistentvolume/pv_controller.go isVolumeUsed
    fn users_of_deleted_claim(&self, volume: &PersistentVolume) -> Option<Vec<String>> {
        let owner = volume.spec.claim_ref.as_ref()?;
        let key = Key::new(&owner.namespace, &owner.name);
        let users = self.users(&key).into_iter();
        let users: Vec<_> = users
            .map(|pod| format!("{}/{}", pod.metadata.namespace, pod.metadata.name))
            .collect();
        (!users.is_empty() && self.claims.get(&key).is_none()).then_some(users)
    }
}

/// The recycler pod.
// upstream: pkg/volume/util/recyclerclient/recycler_client.go RecycleVolumeByWatchingPodUntilCompletion
fn recycler_pod(volume: &PersistentVolume, spec: &Value, name: &str) -> Value {
    let gibibytes = volume.spec.capacity.amount().value() >> 30;
    let (source, min) = if volume.spec.host_path.is_some() {
        (
            json!({"name": "vol", "hostPath": {"path": spec["hostPath"]["path"]}}),
            60,
        )
    } else {
        let nfs = json!({"server": spec["nfs"]["server"], "path": spec["nfs"]["path"]});
        (json!({"name": "vol", "nfs": nfs}), 300)
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {
        "activeDeadlineSeconds": min.max(gibibytes * SECONDS_PER_GIBIBYTE),
        "restartPolicy": "Never",
        "volumes": [source],
        "containers": [{"name": "pv-recycler", "image": IMAGE, "command": ["/bin/sh"], "args": ["-c", SCRIPT],
            "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}]}],
    }})
}
