//! Makes the claims that pods bring along: one for each of their ephemeral volumes, which goes with the pod.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubecontroller::{
    Key,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::Delta,
    store::Store,
};
use serde_json::{Value, json};

use crate::{
    context::{Context, Task},
    news::News,
    objects::{PersistentVolumeClaim, Pod, Volume},
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS},
    writer::{Place, Writer, is, is_taken, words},
};

/// The name of its queue, and the one that its events are signed with.
const NAME: &str = "ephemeral_volume";

struct Maker {
    writer: Writer,
    recorder: EventRecorder,
    pods: Store<Pod>,
    claims: Store<PersistentVolumeClaim>,
}

/// Why a volume of a pod has no claim.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    NotOurs { claim: Key, pod: Key },
    #[error("create PVC {name}: {}", words(source))]
    Refused {
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let pods = context.pods();
    let claims = context.informer::<PersistentVolumeClaim>(&PERSISTENT_VOLUME_CLAIMS);
    let (maker, users) = (
        Maker {
            writer: context.writer.clone(),
            recorder: context.recorder.clone().component(NAME),
            pods: pods.store().clone(),
            claims: claims.store().clone(),
        },
        context.pods_by_claim(),
    );
    let is_new = |delta: &Delta<Pod>| matches!(delta, Delta::Added { new, .. } if wants_claims(new));
    let is_gone = |delta: &Delta<PersistentVolumeClaim>| delta.new().is_none();
    let runner = context
        .controller(NAME)
        .for_where(&pods, Predicate::new(is_new))
        .watches_where(&claims, Predicate::new(is_gone), move |delta| {
            let meta = &delta.object().metadata;
            let pods = users.get(Key::new(&meta.namespace, &meta.name).as_str());
            let pods = pods.into_iter().filter(|pod| wants_claims(pod));
            pods.map(|pod| Key::new(&pod.metadata.namespace, &pod.metadata.name))
                .collect()
        })
        .reconciler(maker);
    vec![Box::new(runner)]
}

fn wants_claims(pod: &Pod) -> bool {
    !pod.metadata.is_going() && pod.spec.volumes.iter().any(Volume::is_ephemeral)
}

// --- Maker ---

impl Reconciler for Maker {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.get(&request.key).filter(|pod| wants_claims(pod)) else {
            return Ok(Outcome::Done);
        };
        // Templates are not kept of all pods, for these few.
        let mut whole = None;
        for volume in pod.spec.volumes.iter().filter(|volume| volume.is_ephemeral()) {
            let name = volume.claim_of(&pod.metadata.name);
            let key = Key::new(&pod.metadata.namespace, &name);
            let made = match self.claims.get(&key) {
                Some(claim) if claim.metadata.is_controlled_by(&pod.metadata.uid) => continue,
                Some(_) => Err(Trouble::NotOurs {
                    claim: key,
                    pod: request.key.clone(),
                }),
                None => {
                    if whole.is_none() {
                        whole = self.whole(&pod).await?;
                    }
                    let Some(whole) = &whole else {
                        return Ok(Outcome::Done);
                    };
                    self.make(&pod, whole, volume, &name).await
                }
            };
            match made {
                Ok(()) => {}
                // The informer will tell whose it is.
                Err(Trouble::Refused { source, .. }) if is_taken(&source) => return Err(source.into()),
                Err(trouble) => {
                    let message = format_args!("ephemeral volume {}: {trouble}", volume.name);
                    let about = pod.metadata.reference(&PODS);
                    News::warning("FailedBinding", message).tell(&self.recorder, &about);
                    return Err(trouble.into());
                }
            }
        }
        Ok(Outcome::Done)
    }
}

impl Maker {
    /// All of a pod, if it is still there.
    async fn whole(&self, pod: &Arc<Pod>) -> kube::Result<Option<Value>> {
        let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        match self.writer.get::<Value>(place).await {
            Ok(whole) => Ok(Some(whole).filter(|whole| whole["metadata"]["uid"] == *pod.metadata.uid)),
            Err(error) if is(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make(&self, pod: &Pod, whole: &Value, volume: &Volume, name: &str) -> Result<(), Trouble> {
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
        let made = made.await.map_err(|source| Trouble::Refused {
            name: name.to_owned(),
            source,
        });
        made.map(|_| ())
    }
}
