//! What the API is told of pods: their statuses, and at the end that we have let go of them.
//!
//! Promises:
//! - Statuses of a pod are written in order, and only the newest; one that is there already is not written.
//! - A pod is deleted only after its last status was written, and only if it is still the same pod.
//! - While the API cannot be reached nobody waits: what is newest then is written when it can.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use kubecontroller::{
    manager::Stop,
    workqueue::{ExponentialBackoff, WorkQueue, WorkQueueOptions},
};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

/// How many are written at a time.
const WRITERS: usize = 16;
/// How long a write may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Finds the pod in the API that shows a pod of this node.
pub(super) type Shown = Arc<dyn Fn(&str) -> Option<Arc<Pod>> + Send + Sync>;

/// Writes to the API. Clones are the same.
#[derive(Clone)]
pub(super) struct Reports {
    client: kube::Client,
    shown: Shown,
    queue: WorkQueue<String>,
    slots: Arc<Mutex<HashMap<String, Slot>>>,
}

#[derive(Default)]
struct Slot {
    /// What is to be there.
    wanted: Option<PodStatus>,
    /// What was written last, of which object, and the version that it made.
    written: Option<(PodStatus, String, u64)>,
    /// Whether the pod can go once its status is there.
    is_over: bool,
}

// --- Reports ---

impl Reports {
    /// Writes about the pods that `shown` finds.
    pub(super) fn new(client: kube::Client, shown: Shown) -> Self {
        let options = WorkQueueOptions {
            backoff: ExponentialBackoff {
                base: Duration::from_millis(200),
                max: Duration::from_secs(10),
            },
            ..WorkQueueOptions::default()
        };
        Reports {
            client,
            shown,
            queue: WorkQueue::new(options),
            slots: Arc::default(),
        }
    }

    /// Says what the status of a pod is to be.
    pub(super) fn set(&self, uid: &str, status: PodStatus) {
        let mut slots = self.slots();
        let slot = slots.entry(uid.to_owned()).or_default();
        let is_there = slot.wanted.as_ref() == Some(&status);
        slot.wanted = Some(status);
        drop(slots);
        if !is_there || self.is_due(uid) {
            self.queue.add(uid.to_owned());
        }
    }

    /// Says that we have let go of a pod: once its status is written, it is deleted.
    pub(super) fn finish(&self, uid: &str) {
        self.slots().entry(uid.to_owned()).or_default().is_over = true;
        self.queue.add(uid.to_owned());
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.slots().remove(uid);
    }

    /// Writes until it is told to end.
    pub(super) async fn run(&self, stop: &Stop) {
        let mut writers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                Some(_) = writers.join_next() => {}
                job = self.queue.next(), if writers.len() < WRITERS => {
                    let Some(job) = job else { break };
                    let this = self.clone();
                    writers.spawn(async move {
                        let written = tokio::time::timeout(PATIENCE, this.write(job.key())).await;
                        match written {
                            Ok(Ok(())) => { job.done(); }
                            Ok(Err(error)) => {
                                tracing::warn!(pod = job.key(), %error, "cannot write the status of a pod");
                                job.fail();
                            }
                            Err(_) => { job.fail(); }
                        }
                    });
                }
            }
        }
        // What was begun may end; a status that is not written now is computed again after the next start.
        stop.until_expired(async { while writers.join_next().await.is_some() {} })
            .await;
    }

    /// Whether what the API has is not what it should have.
    fn is_due(&self, uid: &str) -> bool {
        let Some(shown) = (self.shown)(uid) else {
            return false;
        };
        let slots = self.slots();
        slots.get(uid).is_some_and(|slot| slot.patch(&shown).is_some())
    }

    async fn write(&self, uid: &str) -> Result<(), kube::Error> {
        let Some(shown) = (self.shown)(uid) else {
            return Ok(());
        };
        let (patch, wanted, is_over) = {
            let slots = self.slots();
            let Some(slot) = slots.get(uid) else {
                return Ok(());
            };
            (slot.patch(&shown), slot.wanted.clone(), slot.is_over)
        };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (namespace, name) = (text(&shown.metadata.namespace), text(&shown.metadata.name));
        let id = text(&shown.metadata.uid);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        if let (Some(patch), Some(wanted)) = (patch, wanted) {
            let patched = pods
                .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
                .await;
            match patched {
                Ok(now) => {
                    let version = version(&now);
                    if let Some(slot) = self.slots().get_mut(uid) {
                        slot.written = Some((wanted, id.clone(), version));
                    }
                }
                // It is gone, or another one has its name.
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if is_over && shown.metadata.deletion_timestamp.is_some() {
            let delete = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions {
                    uid: Some(id),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            match pods.delete(&name, &delete).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Slot ---

impl Slot {
    /// What has to be changed of the object, if anything has.
    fn patch(&self, shown: &Pod) -> Option<Value> {
        let wanted = self.wanted.as_ref()?;
        let uid = shown.metadata.uid.as_deref().unwrap_or_default();
        // What we wrote may not have come back yet.
        if let Some((written, id, at)) = &self.written
            && id == uid
            && version(shown) <= *at
            && written == wanted
        {
            return None;
        }
        let changes = difference(shown.status.as_ref().unwrap_or(&PodStatus::default()), wanted)?;
        // The uid makes it fail for another pod of this name.
        Some(json!({"metadata": {"uid": uid}, "status": changes}))
    }
}

fn version(pod: &Pod) -> u64 {
    let version = pod.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// What leads from one status to another, as a strategic patch. Lists that are merged by a key name what is to go from them;
/// conditions that are not named here stay, whoever wrote them.
fn difference(old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let fields = |status: &PodStatus| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (old, new) = (fields(old), fields(new));
    let mut changes = Map::new();
    for (name, value) in &new {
        let before = old.get(name);
        if before == Some(value) {
            continue;
        }
        let change = match merge_key(name) {
            Some(key) => merged(before, value, key),
            None => value.clone(),
        };
        changes.insert(name.clone(), change);
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// By what the elements of a list are told apart in a strategic patch.
fn merge_key(name: &str) -> Option<&'static str> {
    match name {
        "conditions" => Some("type"),
        "podIPs" | "hostIPs" => Some("ip"),
        _ => None,
    }
}

fn merged(before: Option<&Value>, value: &Value, key: &str) -> Value {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let (old, new) = (list(before), list(Some(value)));
    let same =
        |list: &[Value], element: &Value| list.iter().find(|other| other[key] == element[key]).cloned();
    let gone = old.iter().filter(|element| same(&new, element).is_none());
    let gone: Vec<_> = gone
        .map(|element| json!({"$patch": "delete", key: element[key]}))
        .collect();
    let kept = new.iter().map(|element| {
        let mut element = element.clone();
        // Elements are merged, too: what they had and have no more is taken away by name.
        if let (Some(Value::Object(before)), Some(fields)) = (same(&old, &element), element.as_object_mut()) {
            for name in before.keys() {
                fields.entry(name.clone()).or_insert(Value::Null);
            }
        }
        element
    });
    Value::Array(kept.chain(gone).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_differs_is_written_and_what_is_gone_is_named() {
        let condition = |kind: &str, reason: Option<&str>| match reason {
            Some(reason) => json!({"type": kind, "status": "True", "reason": reason}),
            None => json!({"type": kind, "status": "True"}),
        };
        let old = status(
            json!({"phase": "Pending", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "reason": "a",
            "conditions": [condition("Ready", Some("why")), condition("Resize", None)]}),
        );
        let new = status(
            json!({"phase": "Pending", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}],
            "conditions": [condition("Ready", None)]}),
        );
        assert_eq!(difference(&old, &old), None);
        assert_eq!(
            difference(&old, &new),
            Some(json!({
                "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}], "reason": null,
                "conditions": [
                    {"type": "Ready", "status": "True", "reason": null},
                    {"$patch": "delete", "type": "Resize"},
                ],
            }))
        );
    }
}
