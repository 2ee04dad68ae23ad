//! The ephemeral volume controller: creates a PersistentVolumeClaim for each ephemeral volume of a pod, owned by the pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k3_workloads::{PersistentVolumeClaim, Pod, Volume};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::Delta,
    store::Store,
    writer::{ApiWriter, ObjectRef, error_message, has_status_code, is_already_exists},
};
use serde_json::{Value, json};

use crate::{
    context::{ControllerContext, Task},
    event_message::EventMessage,
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS},
};

/// Name of its work queue and source of its events.
const EVENT_COMPONENT: &str = "ephemeral_volume";

// upstream: pkg/controller/volume/ephemeral/controller.go ephemeralController, syncHandler
struct EphemeralVolumeController {
    writer: ApiWriter,
    recorder: EventRecorder,
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
}

/// Why a volume of a pod has no claim.
#[derive(Debug, thiserror::Error)]
enum VolumeError {
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    ForeignClaim { claim: Key, pod: Key },
    #[error("create PVC {name}: {}", error_message(source))]
    CreateFailed {
        name: String,
        #[source]
        source: kube::Error,
    },
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let pods = context.pods();
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let reconciler = EphemeralVolumeController {
        writer: context.writer.clone(),
        recorder: context.recorder.clone().component(EVENT_COMPONENT),
        pods: pods.store().clone(),
        claims: claims.store().clone(),
    };
    let users = context.pods_by_claim();
    let is_new = |delta: &Delta<Pod>| matches!(delta, Delta::Added { new, .. } if has_ephemeral_volumes(new));
    let is_deleted = |delta: &Delta<PersistentVolumeClaim>| delta.new().is_none();
    let runner = context
        .controller("ephemeral-volume-controller")
        .for_where(&pods, Predicate::new(is_new))
        .watches_where(&claims, Predicate::new(is_deleted), move |delta| {
            let meta = &delta.object().metadata;
            let pods = users.get(Key::new(&meta.namespace, &meta.name).as_str());
            let pods = pods.into_iter().filter(|pod| has_ephemeral_volumes(pod));
            pods.map(|pod| Key::new(&pod.metadata.namespace, &pod.metadata.name))
                .collect()
        })
        .reconciler(reconciler);
    vec![Box::new(runner)]
}

fn has_ephemeral_volumes(pod: &Pod) -> bool {
    !pod.metadata.is_terminating() && pod.spec.volumes.iter().any(Volume::is_ephemeral)
}

// --- EphemeralVolumeController ---

impl Reconciler for EphemeralVolumeController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(pod) = self
            .pods
            .get(&request.key)
            .filter(|pod| has_ephemeral_volumes(pod))
        else {
            return Ok(Outcome::Done);
        };
        // Templates are not in the pod cache; the few pods that need them are read from the server.
        let mut whole = None;
        for volume in pod.spec.volumes.iter().filter(|volume| volume.is_ephemeral()) {
            let Some(name) = volume.claim_name(&pod.metadata.name) else {
                continue;
            };
            let key = Key::new(&pod.metadata.namespace, &name);
            let made = match self.claims.get(&key) {
                Some(claim) if claim.metadata.is_controlled_by(&pod.metadata.uid) => continue,
                Some(_) => Err(VolumeError::ForeignClaim {
                    claim: key,
                    pod: request.key.clone(),
                }),
                None => {
                    if whole.is_none() {
                        whole = self.complete_pod(&pod).await?;
                    }
                    let Some(whole) = &whole else {
                        return Ok(Outcome::Done);
                    };
                    self.make(&pod, whole, volume, &name).await
                }
            };
            match made {
                Ok(()) => {}
                // The informer will deliver its owner.
                Err(VolumeError::CreateFailed { source, .. }) if is_already_exists(&source) => {
                    return Err(source.into());
                }
                Err(error) => {
                    let message = format_args!("ephemeral volume {}: {error}", volume.name);
                    let about = pod.metadata.reference(&PODS);
                    EventMessage::warning("FailedBinding", message).record(&self.recorder, &about);
                    return Err(error.into());
                }
            }
        }
        Ok(Outcome::Done)
    }
}

impl EphemeralVolumeController {
    /// The complete pod, if it still exists.
    async fn complete_pod(&self, pod: &Arc<Pod>) -> kube::Result<Option<Value>> {
        let object_ref = ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        match self.writer.get::<Value>(object_ref).await {
            Ok(whole) => Ok(Some(whole).filter(|whole| whole["metadata"]["uid"] == *pod.metadata.uid)),
            Err(error) if has_status_code(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    // upstream: pkg/controller/volume/ephemeral/controller.go handleVolume
    async fn make(&self, pod: &Pod, whole: &Value, volume: &Volume, name: &str) -> Result<(), VolumeError> {
        let volumes = whole["spec"]["volumes"].as_array().into_iter().flatten();
        let written = volumes
            .into_iter()
            .find(|written| written["name"] == *volume.name);
        let template = written.map_or(
            &Value::Null,
            |written| &written["ephemeral"]["volumeClaimTemplate"],
        );
        let metadata = json!({
            "name": name,
            "ownerReferences": [pod.metadata.as_controller(&PODS)],
            "annotations": template["metadata"]["annotations"],
            "labels": template["metadata"]["labels"],
        });
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]});
        let made = self
            .writer
            .create::<Value>(&PERSISTENT_VOLUME_CLAIMS, &pod.metadata.namespace, &claim);
        let made = made.await.map_err(|source| VolumeError::CreateFailed {
            name: name.to_owned(),
            source,
        });
        made.map(|_| ())
    }
}
