//! Looks at the clock, and makes the pod when it is time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome},
};
use serde_json::json;

use crate::{At, AtPhase, AtStatus, schedule};

/// Reconciles `At`s.
#[derive(Clone)]
pub struct Ats {
    client: Client,
    clock: Clock,
}

// --- Ats ---

impl Ats {
    /// With that client, by that clock.
    pub fn new(client: Client, clock: Clock) -> Self {
        Ats { client, clock }
    }

    /// Brings an `At` as far as the time allows.
    pub async fn reconcile(&self, at: &At) -> Result<Outcome, Error> {
        let status = at.status.clone().unwrap_or_default();
        if status.phase == AtPhase::Done || at.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let when = match schedule(&at.spec.schedule) {
            Ok(when) => when,
            Err(bad) => {
                self.write(at, AtPhase::Pending, &bad.to_string()).await?;
                // No use in trying again: only a change of the object helps.
                return Err(Error::permanent(bad));
            }
        };
        let now = self.clock.now();
        if now < when {
            self.write(at, AtPhase::Pending, "").await?;
            let left = Duration::try_from(when.duration_since(now))?;
            return Ok(Outcome::RequeueAfter(left));
        }
        self.write(at, AtPhase::Running, "").await?;
        self.run(at).await?;
        self.write(at, AtPhase::Done, "").await?;
        Ok(Outcome::Done)
    }

    /// Makes the pod. One that is there already, from a try that died before it could say so, is as good.
    async fn run(&self, at: &At) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &at.namespace().unwrap_or_default());
        let pod = pod(at)?;
        match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
                let there = pods.get(&pod.name_any()).await?;
                let is_ours = there
                    .owner_references()
                    .iter()
                    .any(|owner| Some(&owner.uid) == at.uid().as_ref());
                if is_ours {
                    Ok(())
                } else {
                    Err(Error::transient(format!(
                        "the pod {} is somebody else's",
                        pod.name_any()
                    )))
                }
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn write(&self, at: &At, phase: AtPhase, message: &str) -> Result<(), Error> {
        let status = AtStatus {
            phase,
            message: message.to_owned(),
        };
        if at.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let ats: Api<At> = Api::namespaced(self.client.clone(), &at.namespace().unwrap_or_default());
        // A merge keeps what it does not name: an empty message is named, so that an old one goes.
        let patch = Patch::Merge(json!({"status": {"phase": phase, "message": message}}));
        ats.patch_status(&at.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}

/// The pod of an `At`: its command in a small image, gone when the `At` is.
pub fn pod(at: &At) -> Result<Pod, Error> {
    let name = at.name_any();
    let owner = at
        .controller_owner_ref(&())
        .ok_or_else(|| Error::permanent("the object has no uid"))?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{name}-pod"),
            "namespace": at.namespace(),
            "labels": {"app": name},
            "ownerReferences": [owner],
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [{
                "name": "busybox",
                "image": "busybox",
                "command": at.spec.command.split_whitespace().collect::<Vec<_>>(),
            }],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
