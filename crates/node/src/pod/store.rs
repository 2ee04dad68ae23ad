//! In-memory state of the pods of this node.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::{
    api::core::v1::{Pod, PodStatus},
    jiff::Timestamp,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

use super::{
    allocation_state::{PodResourceInfo, ResizeRejection},
    status::{PodSnapshot, PodWorkerState, ResizeInProgress, ResizePending, TerminationCause, WaitingReason},
};
use crate::runtime::ContainerId;

/// All pods by UID.
#[derive(Default)]
pub(super) struct PodStore {
    entries: Mutex<HashMap<String, PodEntry>>,
}

/// State of one pod.
#[derive(Debug)]
pub(super) struct PodEntry {
    /// The newest version received.
    pub pod: Arc<Pod>,
    pub source: PodSource,
    /// Whether the pod was removed: deleted from the API, or its manifest file was removed.
    pub is_removed: bool,
    /// Advances from `Syncing` to `Terminated`. Returns to `Terminating` only if a container of a terminated pod runs.
    pub worker_state: PodWorkerState,
    /// Why the pod is terminated, other than deletion or completion.
    pub termination_cause: Option<TerminationCause>,
    /// Overrides the grace period of the spec, in seconds.
    pub grace: Option<i64>,
    pub admission: AdmissionState,
    /// The last computed status.
    pub previous: Option<PodStatus>,
    /// Why containers are waiting, by container name.
    pub waiting: BTreeMap<String, WaitingReason>,
    /// Containers that failed to start are not retried before this time.
    pub retry_after: BTreeMap<String, Timestamp>,
    /// Termination messages; `None` if there was none.
    pub messages: BTreeMap<ContainerId, Option<String>>,
    /// The sandboxes and containers of the pod at the last sync.
    pub snapshot: Arc<PodSnapshot>,
    /// Allocated and actuated resources; read from the pod's directory once.
    pub resource_info: Option<PodResourceInfo>,
    /// Why a resize is rejected, and the generation it was rejected for.
    pub resize_rejection: Option<(ResizeRejection, Option<i64>)>,
    /// The last error of updating container resources.
    pub resize_error: String,
    /// Whether a resize was allocated, and no event has reported its completion yet.
    pub is_resizing: bool,
    pub volumes_refreshed: Option<Instant>,
    /// Whether the volumes were unmounted after termination.
    pub volumes_released: bool,
    /// Set to the grace period when the pod has to terminate; a sync in progress aborts then.
    pub termination: watch::Sender<Option<i64>>,
}

/// Source of a pod.
#[derive(Clone, Debug, Default)]
pub(super) enum PodSource {
    #[default]
    Api,
    /// A static pod manifest, with its mirror pod if that exists.
    File(Option<Arc<Pod>>),
    /// Not known to the API or a manifest: only its containers were found in the runtime.
    Runtime,
}

/// Whether the node admitted a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AdmissionState {
    #[default]
    Pending,
    Admitted,
    Rejected,
}

// --- PodStore ---

impl PodStore {
    /// Locks the store. Never hold the guard across an await.
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<String, PodEntry>> {
        self.entries.lock()
    }

    pub(super) fn read<T>(&self, uid: &str, read: impl FnOnce(&PodEntry) -> T) -> Option<T> {
        self.lock().get(uid).map(read)
    }

    pub(super) fn update<T>(&self, uid: &str, update: impl FnOnce(&mut PodEntry) -> T) -> Option<T> {
        self.lock().get_mut(uid).map(update)
    }

    /// Whether no container of a pod runs; true for unknown pods.
    pub(super) fn is_stopped(&self, uid: &str) -> bool {
        self.read(uid, |entry| entry.worker_state == PodWorkerState::Terminated)
            .unwrap_or(true)
    }

    /// The pod object in the API: the pod itself, or its mirror pod.
    pub(super) fn api_pod(&self, uid: &str) -> Option<Arc<Pod>> {
        self.read(uid, |entry| match &entry.source {
            PodSource::Api => (!entry.is_removed).then(|| Arc::clone(&entry.pod)),
            PodSource::File(mirror) => mirror.clone(),
            PodSource::Runtime => None,
        })?
    }

    /// Whether another pod with the same name has to be removed first: container names contain the pod name.
    // upstream: pkg/kubelet/pod_workers.go allowPodStart, allowStaticPodStart; upstream waits for static pods only
    pub(super) fn waits_for_pod_of_same_name(&self, uid: &str) -> bool {
        let entries = self.lock();
        let Some(own) = entries.get(uid) else {
            return false;
        };
        let is_new = own.snapshot.sandboxes.is_empty() && !own.is_termination_requested();
        is_new
            && entries.iter().any(|(other, entry)| {
                other != uid && has_same_name(&entry.pod, &own.pod) && entry.must_be_removed()
            })
    }

    /// UIDs of the pods with the namespace and name of a pod.
    pub(super) fn pods_with_name_of(&self, pod: &Pod) -> Vec<String> {
        let entries = self.lock();
        let same_name = entries.iter().filter(|(_, entry)| has_same_name(&entry.pod, pod));
        same_name.map(|(uid, _)| uid.clone()).collect()
    }
}

fn has_same_name(one: &Pod, other: &Pod) -> bool {
    one.metadata.name == other.metadata.name && one.metadata.namespace == other.metadata.namespace
}

// --- PodEntry ---

impl PodEntry {
    pub(super) fn new(pod: Arc<Pod>, source: PodSource) -> Self {
        PodEntry {
            pod,
            source,
            is_removed: false,
            worker_state: PodWorkerState::Syncing,
            termination_cause: None,
            grace: None,
            admission: AdmissionState::Pending,
            previous: None,
            waiting: BTreeMap::new(),
            retry_after: BTreeMap::new(),
            messages: BTreeMap::new(),
            snapshot: Arc::default(),
            resource_info: None,
            resize_rejection: None,
            resize_error: String::new(),
            is_resizing: false,
            volumes_refreshed: None,
            volumes_released: false,
            termination: watch::Sender::new(None),
        }
    }

    /// Whether termination of the pod was requested.
    // upstream: pkg/kubelet/pod_workers.go IsTerminationRequested
    pub(super) fn is_termination_requested(&self) -> bool {
        self.is_removed || self.termination_cause.is_some() || self.is_deleted()
    }

    /// Whether the API server waits for this node to finish the deletion.
    pub(super) fn is_deleted(&self) -> bool {
        matches!(self.source, PodSource::Api) && self.pod.metadata.deletion_timestamp.is_some()
    }

    /// Whether the containers and the directory of the pod have to be removed.
    pub(super) fn must_be_removed(&self) -> bool {
        self.is_removed || self.is_deleted()
    }

    /// The grace period in seconds.
    // upstream: pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod
    pub(super) fn effective_grace(&self) -> i64 {
        let spec = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        let deleted = self.pod.metadata.deletion_grace_period_seconds;
        let seconds = match self.source {
            PodSource::Runtime => Some(1),
            _ => deleted.or(self.grace).or(spec),
        };
        // At least one second, so that containers always receive the stop signal before being killed.
        seconds.unwrap_or(30).max(1)
    }

    /// Aborts a sync in progress if the pod has to terminate, and a termination in progress if the grace period got shorter.
    pub(super) fn notify_termination(&self) {
        if self.is_termination_requested() {
            let grace = self.effective_grace();
            self.termination.send_if_modified(|current| {
                let is_shorter = current.is_none_or(|current| grace < current);
                if is_shorter {
                    *current = Some(grace);
                }
                is_shorter
            });
        }
    }

    /// Whether the pod uses resources of this node.
    pub(super) fn is_active(&self) -> bool {
        self.admission == AdmissionState::Admitted && self.worker_state != PodWorkerState::Terminated
    }

    /// The pod with its allocated resources.
    // upstream: pkg/kubelet/allocation/allocation_manager.go UpdatePodFromAllocation
    pub(super) fn with_allocated_resources(&self) -> Pod {
        match &self.resource_info {
            Some(resource_info) => resource_info.apply_to(&self.pod),
            None => Pod::clone(&self.pod),
        }
    }

    /// The pending resize, and the resize in progress.
    pub(super) fn resize_status(&self) -> (Option<ResizePending>, Option<ResizeInProgress>) {
        let pending = self.resize_rejection.as_ref().map(|(rejection, generation)| {
            let (infeasible, message) = match rejection {
                ResizeRejection::Infeasible(message) => (true, message.clone()),
                ResizeRejection::Deferred(message) => (false, message.clone()),
            };
            ResizePending {
                infeasible,
                message,
                generation: *generation,
            }
        });
        let progress = self
            .resource_info
            .as_ref()
            .filter(|resource_info| resource_info.is_in_progress())
            .map(|_| ResizeInProgress {
                error: self.resize_error.clone(),
                generation: self.pod.metadata.generation,
            });
        (pending, progress)
    }
}

/// Whether the API status of the pod names any container.
pub(super) fn had_containers(pod: &Pod) -> bool {
    let Some(status) = &pod.status else {
        return false;
    };
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let mut all = lists.into_iter().flatten().flatten();
    all.any(|status| status.container_id.as_ref().is_some_and(|id| !id.is_empty()))
}
