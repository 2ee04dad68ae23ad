//! Volumes that are wiped when nobody claims them any more: by a pod that deletes all that is in them.

use std::{sync::Arc, time::Duration};

use kubecontroller::{
    Key,
    controller::{Error, Outcome},
};
use serde_json::{Value, json};

use super::binder::Binder;
use crate::{
    event_message::EventMessage,
    objects::{PersistentVolume, Pod, PodPhase, VolumePhase},
    resource::{PERSISTENT_VOLUMES, PODS},
    writer::{ObjectRef, delete_options_for_uid, error_message, is_already_exists},
};

/// Where the pods are.
const NAMESPACE: &str = "default";
/// What their names begin with; the rest is the name of the volume.
const NAME: &str = "recycler-for-";
const IMAGE: &str = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6";
const SCRIPT: &str =
    "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1";
/// After so long it is tried again, if it went wrong or somebody uses the volume.
const AGAIN: Duration = Duration::from_secs(15);
/// How long a pod may work for each gibibyte.
const SECONDS_PER_GIBIBYTE: i64 = 30;

/// The volume that a pod wipes.
pub(super) fn volume_of(pod: &Pod) -> Vec<Key> {
    let name = pod.metadata.name.strip_prefix(NAME);
    let name = name.filter(|_| &*pod.metadata.namespace == NAMESPACE);
    name.map(|name| Key::new("", name)).into_iter().collect()
}

// --- Binder ---

impl Binder {
    /// Has a volume wiped, and makes it free when that is done.
    pub(super) async fn recycle(&self, volume: Arc<PersistentVolume>) -> Result<Outcome, Error> {
        if let Some(users) = self.users_of_gone(&volume) {
            let message = format_args!("Volume is used by pods: {}", users.join(","));
            self.tell_of_volume(&volume, &EventMessage::normal("VolumeFailedRecycle", message));
            return Ok(Outcome::RequeueAfter(AGAIN));
        }
        let name = format!("{NAME}{}", volume.metadata.name);
        let Some(pod) = self.pods.get(&Key::new(NAMESPACE, &name)) else {
            return self.begin(&volume, &name).await;
        };
        if !pod.has_ended() {
            return Ok(Outcome::Done);
        }
        let object_ref = ObjectRef::new(&PODS, NAMESPACE, &name);
        self.writer
            .delete(object_ref, &delete_options_for_uid(&pod.metadata.uid))
            .await?;
        if pod.status.phase == PodPhase::Succeeded {
            self.tell_of_volume(
                &volume,
                &EventMessage::normal("VolumeRecycled", "Volume recycled"),
            );
            self.unbind(volume).await?;
            return Ok(Outcome::Done);
        }
        self.failed(
            volume,
            "failed to recycle volume: pod failed, pod.Status.Message unknown",
        )
        .await
    }

    /// Deletes a pod that would wipe a volume which is not to be wiped.
    pub(super) async fn spare(&self, volume: &PersistentVolume) -> kube::Result<()> {
        let name = format!("{NAME}{}", volume.metadata.name);
        match self.pods.get(&Key::new(NAMESPACE, &name)) {
            Some(pod) if !pod.metadata.is_going() => {
                let object_ref = ObjectRef::new(&PODS, NAMESPACE, &name);
                self.writer
                    .delete(object_ref, &delete_options_for_uid(&pod.metadata.uid))
                    .await
            }
            _ => Ok(()),
        }
    }

    async fn begin(&self, volume: &Arc<PersistentVolume>, name: &str) -> Result<Outcome, Error> {
        // What is behind a volume is not kept of all volumes, for these few.
        let object_ref = ObjectRef::new(&PERSISTENT_VOLUMES, "", &volume.metadata.name);
        let whole: Value = self.writer.get(object_ref).await?;
        // Nothing is wiped that was given to somebody meanwhile.
        if whole["metadata"]["resourceVersion"] != *volume.metadata.resource_version {
            return Ok(Outcome::RequeueAfter(AGAIN));
        }
        let pod = recycler(volume, &whole["spec"], name);
        match self.writer.create::<Value>(&PODS, NAMESPACE, &pod).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if is_already_exists(&error) => Ok(Outcome::RequeueAfter(AGAIN)),
            Err(error) => {
                let why = format!(
                    "unexpected error creating recycler pod:  {}",
                    error_message(&error)
                );
                self.failed(volume.clone(), &why).await
            }
        }
    }

    async fn failed(&self, volume: Arc<PersistentVolume>, why: &str) -> Result<Outcome, Error> {
        let news = EventMessage::warning("VolumeFailedRecycle", format_args!("Recycle failed: {why}"));
        self.phase(volume, VolumePhase::Failed, Some(&news)).await?;
        Ok(Outcome::RequeueAfter(AGAIN))
    }

    /// The pods that still use the claim that is gone. If there is a claim of its name again, they mean that one.
    fn users_of_gone(&self, volume: &PersistentVolume) -> Option<Vec<String>> {
        let owner = volume.spec.claim_ref.as_ref()?;
        let key = Key::new(&owner.namespace, &owner.name);
        let users = self.users(&key).into_iter();
        let users: Vec<_> = users
            .map(|pod| format!("{}/{}", pod.metadata.namespace, pod.metadata.name))
            .collect();
        (!users.is_empty() && self.claims.get(&key).is_none()).then_some(users)
    }
}

/// A pod that wipes a volume.
fn recycler(volume: &PersistentVolume, spec: &Value, name: &str) -> Value {
    let gibibytes = volume.spec.capacity.amount().value() >> 30;
    let (source, least) = if volume.spec.host_path.is_some() {
        (
            json!({"name": "vol", "hostPath": {"path": spec["hostPath"]["path"]}}),
            60,
        )
    } else {
        let nfs = json!({"server": spec["nfs"]["server"], "path": spec["nfs"]["path"]});
        (json!({"name": "vol", "nfs": nfs}), 300)
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {
        "activeDeadlineSeconds": least.max(gibibytes * SECONDS_PER_GIBIBYTE),
        "restartPolicy": "Never",
        "volumes": [source],
        "containers": [{"name": "pv-recycler", "image": IMAGE, "command": ["/bin/sh"], "args": ["-c", SCRIPT],
            "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}]}],
    }})
}
