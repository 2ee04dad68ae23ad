//! Computes the status of a pod from what the runtime has, and passes it to the status manager.
// upstream: pkg/kubelet/kubelet_pods.go generateAPIPodStatus

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::PodStatus;
use kubecontroller::Clock;
use tokio::sync::{OnceCell, watch};

use super::{
    cache::RuntimeSnapshot,
    status::{self, PodSnapshot, PodWorkerState, StatusInput},
    status_manager::StatusManager,
    store::PodStore,
    termination_message,
};
use crate::{
    NodeFacts,
    images::with_timeout,
    probes::ProbeManager,
    runtime::{ContainerState, Runtime, RuntimeError},
    volumes::PodDirectories,
};

/// Reports the statuses of pods.
pub(super) struct StatusReporter {
    pub store: Arc<PodStore>,
    pub status_manager: StatusManager,
    pub probe_manager: Arc<ProbeManager>,
    pub facts: watch::Receiver<Arc<NodeFacts>>,
    pub clock: Clock,
    pub directories: PodDirectories,
    pub runtime_name: RuntimeName,
}

/// The name that the runtime reports with its version. Read once.
pub(super) struct RuntimeName {
    /// Timeout of the runtime call.
    limit: Duration,
    /// Set by the first successful call. Concurrent callers share a call.
    name: OnceCell<String>,
}

// --- StatusReporter ---

impl StatusReporter {
    /// Stores the sandboxes and containers of a pod, and reads the termination messages of containers that exited.
    pub(super) async fn store_snapshot(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        runtime_snapshot: &RuntimeSnapshot,
    ) -> Arc<PodSnapshot> {
        let snapshot = runtime_snapshot.pod_snapshot(uid);
        let unread: Vec<_> = self
            .store
            .update(uid, |entry| {
                entry.snapshot = Arc::clone(&snapshot);
                entry
                    .messages
                    .retain(|id, _| snapshot.containers.iter().any(|instance| instance.id == *id));
                let ended = snapshot
                    .containers
                    .iter()
                    .filter(|instance| matches!(instance.state, ContainerState::Exited(_)));
                ended
                    .filter(|instance| !entry.messages.contains_key(&instance.id))
                    .cloned()
                    .collect()
            })
            .unwrap_or_default();
        let directory = self.directories.pod(uid);
        for instance in unread {
            let message = termination_message::read_termination_message(runtime, &directory, &instance).await;
            self.store
                .update(uid, |entry| entry.messages.insert(instance.id, message));
        }
        snapshot
    }

    /// Computes and reports the status. `None` if the pod was removed meanwhile, or if the name of the runtime is unknown: a sync
    /// reads the name before anything else.
    pub(super) async fn update_status(
        &self,
        uid: &str,
        runtime: &dyn Runtime,
        worker_state: PodWorkerState,
    ) -> Option<PodStatus> {
        let name = self.runtime_name.get(runtime).await.ok()?;
        let facts = self.facts.borrow().clone();
        let probes = self.probe_manager.results(uid);
        let now = self.clock.now();
        let status = self.store.update(uid, |entry| {
            let pod = entry.with_allocated_resources();
            let messages = entry.messages.iter();
            let messages = messages
                .filter_map(|(id, text)| text.clone().map(|text| (id.clone(), text)))
                .collect();
            let (pending, progress) = entry.resize_status();
            let resource_info = entry.resource_info.clone().unwrap_or_default();
            let status = status::generate_api_pod_status(&StatusInput {
                pod: &pod,
                previous: entry.previous.as_ref(),
                snapshot: &entry.snapshot,
                probes: &probes,
                waiting: &entry.waiting,
                messages: &messages,
                actuated: &resource_info.actuated,
                resize: (pending.as_ref(), progress.as_ref()),
                runtime: name,
                recursive_read_only: false,
                facts: &facts,
                worker_state,
                termination_cause: entry.termination_cause.as_ref(),
                now,
            });
            entry.previous = Some(status.clone());
            status
        })?;
        self.report_status(uid, &status, worker_state);
        Some(status)
    }

    /// Reports a status that was computed already.
    pub(super) fn report_status(&self, uid: &str, status: &PodStatus, worker_state: PodWorkerState) {
        if let Some(api_pod) = self.store.api_pod(uid) {
            let merged = status::merge_pod_status(&api_pod, status, worker_state, self.clock.now());
            self.status_manager.set_pod_status(uid, merged);
        }
    }

    /// Reports that a pod was rejected.
    pub(super) fn report_rejection(&self, uid: &str, reason: &str, message: &str) {
        let status = self.store.update(uid, |entry| {
            let status = status::rejected_status(&entry.pod, reason, message, self.clock.now());
            entry.previous = Some(status.clone());
            status
        });
        if let Some(status) = status {
            self.report_status(uid, &status, PodWorkerState::Terminated);
        }
    }

    /// Reports that the node has nothing left of a pod, so that its API object can be deleted.
    pub(super) fn terminate_pod(&self, uid: &str) {
        self.status_manager.terminate_pod(uid);
    }

    /// Forgets a removed pod.
    pub(super) fn remove_pod(&self, uid: &str) {
        self.status_manager.remove_pod(uid);
    }
}

// --- RuntimeName ---

impl RuntimeName {
    pub(super) fn new(limit: Duration) -> Self {
        RuntimeName {
            limit,
            name: OnceCell::new(),
        }
    }

    /// The name. An error is not kept: a status with container IDs without the name would be wrong for ever.
    pub(super) async fn get(&self, runtime: &dyn Runtime) -> Result<&str, RuntimeError> {
        let read = || async {
            let version = with_timeout(self.limit, "Version", runtime.version()).await?;
            Ok(version.name)
        };
        self.name.get_or_try_init(read).await.map(String::as_str)
    }
}
