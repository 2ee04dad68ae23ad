//! Copies the data after the delay.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome},
};
use serde_json::json;

use crate::{Dummy, DummyStatus};

/// Reconciles `Dummy`s.
#[derive(Clone)]
pub struct DummyReconciler {
    client: Client,
    clock: Clock,
}

// --- DummyReconciler ---

impl DummyReconciler {
    /// Creates a reconciler. Tests pass a clock that they control.
    pub fn new(client: Client, clock: Clock) -> Self {
        DummyReconciler { client, clock }
    }

    /// Starts the delay, or copies the data when the delay is over.
    pub async fn reconcile(&self, dummy: &Dummy) -> Result<Outcome, Error> {
        let generation = dummy.metadata.generation.unwrap_or_default();
        let now = self.clock.now();
        let status = dummy.status.clone().unwrap_or_default();
        let is_new = status.since.is_none() || status.observed_generation != generation;
        if !is_new && status.copied {
            return Ok(Outcome::Done);
        }
        let since = status.since.filter(|_| !is_new).map_or(now, |since| since.0);
        let over = since + Duration::from_secs(dummy.spec.transition_defer.into());
        let is_over = now >= over;
        if is_new || is_over {
            let status = DummyStatus {
                data: if is_over {
                    dummy.spec.data.clone()
                } else {
                    status.data
                },
                observed_generation: generation,
                since: Some(MicroTime(since)),
                copied: is_over,
            };
            self.write(dummy, &status).await?;
        }
        if is_over {
            return Ok(Outcome::Done);
        }
        // The worker continues with other keys; this key is requeued.
        Ok(Outcome::RequeueAfter(Duration::try_from(
            over.duration_since(now),
        )?))
    }

    async fn write(&self, dummy: &Dummy, status: &DummyStatus) -> Result<(), Error> {
        let dummies: Api<Dummy> =
            Api::namespaced(self.client.clone(), &dummy.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"status": status}));
        dummies
            .patch_status(&dummy.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}
