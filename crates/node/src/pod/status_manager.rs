//! Writes pod statuses to the API, and completes deletions.
//!
//! Promises:
//! - Statuses of a pod are written in order, and only the newest; an unchanged one is not written.
//! - A pod is deleted only after its last status was written, and only if its UID still matches.
//! - Callers never wait for the API: when it is unreachable, the newest status is written once it is back.
// upstream: pkg/kubelet/status/status_manager.go manager, syncBatch

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use kubecontroller::{
    Backoff,
    manager::Stop,
    workqueue::{WorkQueue, WorkQueueOptions},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::PodIdentity;

/// Concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 16;
/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Finds the API object of a pod: the pod itself, or its mirror pod.
pub(super) type ApiPodLookup = Arc<dyn Fn(&str) -> Option<Arc<Pod>> + Send + Sync>;

/// Writes statuses of pods. Clones share state.
#[derive(Clone)]
pub(super) struct StatusManager {
    client: kube::Client,
    find_api_pod: ApiPodLookup,
    queue: WorkQueue<String>,
    statuses: Arc<Mutex<HashMap<String, VersionedPodStatus>>>,
}

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
enum StatusWriteError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the API server did not respond within {} seconds", WRITE_TIMEOUT.as_secs())]
    Timeout,
}

#[derive(Default)]
struct VersionedPodStatus {
    desired: Option<PodStatus>,
    /// The last written status, the UID of the object, and the resource version after the write.
    written: Option<(PodStatus, String, u64)>,
    /// Whether the pod can be deleted once its status is written.
    can_be_deleted: bool,
}

// --- StatusManager ---

impl StatusManager {
    /// Writes the statuses of pods that `find_api_pod` finds.
    pub(super) fn new(client: kube::Client, find_api_pod: ApiPodLookup) -> Self {
        let options = WorkQueueOptions {
            backoff: Backoff::exponential(Duration::from_millis(200), Duration::from_secs(10)),
            ..WorkQueueOptions::default()
        };
        StatusManager {
            client,
            find_api_pod,
            queue: WorkQueue::new(options),
            statuses: Arc::default(),
        }
    }

    /// Sets the status to write.
    // upstream: pkg/kubelet/status/status_manager.go SetPodStatus
    pub(super) fn set_pod_status(&self, uid: &str, status: PodStatus) {
        let mut statuses = self.statuses();
        let status_entry = statuses.entry(uid.to_owned()).or_default();
        let is_unchanged = status_entry.desired.as_ref() == Some(&status);
        status_entry.desired = Some(status);
        drop(statuses);
        if !is_unchanged || self.needs_update(uid) {
            self.queue.add(uid.to_owned());
        }
    }

    /// Requests deletion of the pod object after its status is written.
    // upstream: pkg/kubelet/status/status_manager.go TerminatePod
    pub(super) fn terminate_pod(&self, uid: &str) {
        self.statuses().entry(uid.to_owned()).or_default().can_be_deleted = true;
        self.queue.add(uid.to_owned());
    }

    /// Forgets the status of a pod.
    // upstream: pkg/kubelet/status/status_manager.go deletePodStatus
    pub(super) fn remove_pod(&self, uid: &str) {
        self.statuses().remove(uid);
    }

    /// Writes until stopped.
    pub(super) async fn run(&self, stop: &Stop) {
        let mut writes = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                Some(_) = writes.join_next() => {}
                job = self.queue.next(), if writes.len() < MAX_CONCURRENT_WRITES => {
                    let Some(job) = job else { break };
                    let this = self.clone();
                    writes.spawn(async move {
                        match this.sync_pod_in_time(job.key()).await {
                            Ok(()) => { job.done(); }
                            Err(error) => {
                                let pod = this.format_pod(job.key());
                                tracing::warn!(pod, %error, "failed to write pod status; retrying");
                                job.fail();
                            }
                        }
                    });
                }
            }
        }
        // Writes in progress may finish; an unwritten status is computed again after a restart.
        stop.until_expired(async { while writes.join_next().await.is_some() {} })
            .await;
    }

    /// Whether the status in the API differs from the desired status.
    // upstream: pkg/kubelet/status/status_manager.go needsUpdate, needsReconcile
    fn needs_update(&self, uid: &str) -> bool {
        let Some(api_pod) = (self.find_api_pod)(uid) else {
            return false;
        };
        let statuses = self.statuses();
        statuses
            .get(uid)
            .is_some_and(|status_entry| status_entry.patch(&api_pod).is_some())
    }

    async fn sync_pod_in_time(&self, uid: &str) -> Result<(), StatusWriteError> {
        match tokio::time::timeout(WRITE_TIMEOUT, self.sync_pod(uid)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(StatusWriteError::Timeout),
        }
    }

    /// The pod as log lines name it; its UID if it was removed meanwhile.
    fn format_pod(&self, uid: &str) -> String {
        let api_pod = (self.find_api_pod)(uid);
        api_pod.map_or_else(|| uid.to_owned(), |pod| PodIdentity::of(&pod).to_string())
    }

    async fn sync_pod(&self, uid: &str) -> Result<(), kube::Error> {
        let Some(api_pod) = (self.find_api_pod)(uid) else {
            return Ok(());
        };
        let (patch, desired, can_be_deleted) = {
            let statuses = self.statuses();
            let Some(status_entry) = statuses.get(uid) else {
                return Ok(());
            };
            (
                status_entry.patch(&api_pod),
                status_entry.desired.clone(),
                status_entry.can_be_deleted,
            )
        };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let namespace = text(&api_pod.metadata.namespace);
        let name = text(&api_pod.metadata.name);
        let id = text(&api_pod.metadata.uid);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        if let (Some(patch), Some(desired)) = (patch, desired) {
            let patched = pods
                .patch_status(&name, &PatchParams::default(), &Patch::Strategic(patch))
                .await;
            match patched {
                Ok(now) => {
                    let version = resource_version(&now);
                    if let Some(status_entry) = self.statuses().get_mut(uid) {
                        status_entry.written = Some((desired, id.clone(), version));
                    }
                }
                // Deleted, or replaced by another pod of the same name.
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if can_be_deleted && api_pod.metadata.deletion_timestamp.is_some() {
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

    fn statuses(&self) -> MutexGuard<'_, HashMap<String, VersionedPodStatus>> {
        self.statuses.lock()
    }
}

// --- VersionedPodStatus ---

impl VersionedPodStatus {
    /// The status patch, if anything differs.
    fn patch(&self, api_pod: &Pod) -> Option<Value> {
        let desired = self.desired.as_ref()?;
        let uid = api_pod.metadata.uid.as_deref().unwrap_or_default();
        // The informer may not have delivered our own write yet.
        if let Some((written, id, at)) = &self.written
            && id == uid
            && resource_version(api_pod) <= *at
            && written == desired
        {
            return None;
        }
        let changes = status_patch(api_pod.status.as_ref().unwrap_or(&PodStatus::default()), desired)?;
        // With the UID, the patch fails for another pod of the same name.
        Some(json!({"metadata": {"uid": uid}, "status": changes}))
    }
}

fn resource_version(pod: &Pod) -> u64 {
    let version = pod.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// The strategic merge patch from one status to another. Removed elements of lists with a merge key are named; conditions of
/// other writers stay.
fn status_patch(old: &PodStatus, new: &PodStatus) -> Option<Value> {
    let fields = |status: &PodStatus| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let old = fields(old);
    let new = fields(new);
    let mut changes = Map::new();
    for (name, value) in &new {
        let before = old.get(name);
        if before == Some(value) {
            continue;
        }
        let change = match merge_key(name) {
            Some(key) => merge_list(before, value, key),
            None => value.clone(),
        };
        changes.insert(name.clone(), change);
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// The merge key of a list in a strategic merge patch.
fn merge_key(name: &str) -> Option<&'static str> {
    match name {
        "conditions" => Some("type"),
        "podIPs" | "hostIPs" => Some("ip"),
        _ => None,
    }
}

fn merge_list(before: Option<&Value>, value: &Value, key: &str) -> Value {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let old = list(before);
    let new = list(Some(value));
    let find_same =
        |list: &[Value], element: &Value| list.iter().find(|other| other[key] == element[key]).cloned();
    let removed = old.iter().filter(|element| find_same(&new, element).is_none());
    let removed: Vec<_> = removed
        .map(|element| json!({"$patch": "delete", key: element[key]}))
        .collect();
    let changed = new.iter().map(|element| {
        let mut element = element.clone();
        // Elements are merged too: removed fields need an explicit null.
        if let (Some(Value::Object(before)), Some(fields)) =
            (find_same(&old, &element), element.as_object_mut())
        {
            for name in before.keys() {
                fields.entry(name.clone()).or_insert(Value::Null);
            }
        }
        element
    });
    Value::Array(changed.chain(removed).collect())
}

#[cfg(test)]
mod tests {
    use kubecontroller::testing::{FakeApi, Fault, RequestMatcher};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_without_response_fails_with_its_reason_and_is_repeated() {
        let api = FakeApi::new();
        let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": {"containers": []}});
        let pod = Arc::new(api.put(&serde_json::from_value::<Pod>(pod).unwrap()));
        let found = Arc::clone(&pod);
        let manager = StatusManager::new(api.client(), Arc::new(move |_| Some(Arc::clone(&found))));
        let hanging = RequestMatcher::verb("patch").resource("pods").times(1);
        api.faults().on(hanging, Fault::Hang);
        let running = PodStatus {
            phase: Some("Running".to_owned()),
            ..PodStatus::default()
        };
        manager.set_pod_status("u1", running);
        let error = manager.sync_pod_in_time("u1").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the API server did not respond within 30 seconds"
        );
        assert_eq!(manager.format_pod("u1"), "shop/web(u1)");
        manager.sync_pod_in_time("u1").await.unwrap();
        let written: Pod = api.get("shop", "web").unwrap();
        assert_eq!(written.status.unwrap().phase.as_deref(), Some("Running"));
    }

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn patches_changed_fields_and_deletes_removed_list_elements() {
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
        assert_eq!(status_patch(&old, &old), None);
        assert_eq!(
            status_patch(&old, &new),
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
