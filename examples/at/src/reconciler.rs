//! Creates the pod at the scheduled time.

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

use crate::{At, AtPhase, AtStatus, parse_schedule};

/// Reconciles `At`s.
#[derive(Clone)]
pub struct AtReconciler {
    client: Client,
    clock: Clock,
}

// --- AtReconciler ---

impl AtReconciler {
    /// Creates a reconciler. Tests pass a clock that they control.
    pub fn new(client: Client, clock: Clock) -> Self {
        AtReconciler { client, clock }
    }

    /// Advances an `At` through its phases.
    pub async fn reconcile(&self, at: &At) -> Result<Outcome, Error> {
        let status = at.status.clone().unwrap_or_default();
        if status.phase == AtPhase::Done || at.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let when = match parse_schedule(&at.spec.schedule) {
            Ok(when) => when,
            Err(error) => {
                self.write(at, AtPhase::Pending, &error.to_string()).await?;
                // A retry cannot succeed before the spec changes.
                return Err(Error::permanent(error));
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

    /// Creates the pod. It may exist already if an earlier try crashed before it wrote the status.
    async fn run(&self, at: &At) -> Result<(), Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &at.namespace().unwrap_or_default());
        let pod = pod(at)?;
        match pods.create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let existing = pods.get(&pod.name_any()).await?;
                let is_ours = existing
                    .owner_references()
                    .iter()
                    .any(|owner| Some(&owner.uid) == at.uid().as_ref());
                if is_ours {
                    Ok(())
                } else {
                    Err(Error::transient(format!(
                        "pod {} exists and has another owner; delete or rename it",
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
        // A merge patch keeps absent fields, so an empty message must be present to clear an earlier one.
        let patch = Patch::Merge(json!({"status": {"phase": phase, "message": message}}));
        ats.patch_status(&at.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}

/// The pod of an `At`, which the garbage collector deletes together with the `At`.
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
