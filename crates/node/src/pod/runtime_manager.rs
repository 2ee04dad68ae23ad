//! Brings the containers of pods to what their specs ask for.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go kubeGenericRuntimeManager

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::{Backoff, Clock, KeyedBackoff};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

use super::{
    PodSettings,
    actions::PodActions,
    allocation_manager::AllocationManager,
    events::PodEventRecorder,
    start_limiter::StartLimiter,
    status::PodSnapshot,
    store::PodStore,
    sync::{PodSync, SyncResult},
    workers::NextSync,
};
use crate::{
    NodeFacts,
    images::ImageManager,
    runtime::Runtime,
    sources::ObjectSources,
    volumes::{PodDirectories, VolumeManager},
};

/// Back-off between restarts of a container.
const RESTART_BACKOFF: Backoff = Backoff::exponential(Duration::from_secs(10), Duration::from_mins(5));

/// Starts, updates and stops the containers of pods.
pub(super) struct RuntimeManager {
    pub settings: PodSettings,
    pub store: Arc<PodStore>,
    pub allocation_manager: Arc<AllocationManager>,
    pub images: ImageManager,
    pub volumes: Arc<VolumeManager>,
    pub sources: Arc<dyn ObjectSources>,
    pub events: PodEventRecorder,
    pub facts: watch::Receiver<Arc<NodeFacts>>,
    pub clock: Clock,
    pub restart_backoff: RestartBackoff,
    /// Limits concurrent sandbox starts.
    pub sandbox_limiter: StartLimiter,
    /// Limits concurrent container starts. Separate from sandboxes, so that pods with a sandbox make progress.
    pub container_limiter: StartLimiter,
}

/// Restart back-off of containers, by pod UID, container name and container hash.
pub(super) struct RestartBackoff {
    delays: Mutex<KeyedBackoff<(String, String, String)>>,
}

// --- RuntimeManager ---

impl RuntimeManager {
    /// Applies the actions of a pod.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod
    pub(super) async fn sync_pod(
        &self,
        runtime: &Arc<dyn Runtime>,
        pod: Pod,
        snapshot: &Arc<PodSnapshot>,
        actions: PodActions,
    ) -> SyncResult {
        let sync = PodSync {
            manager: self,
            runtime: Arc::clone(runtime),
            pod: Arc::new(pod),
            snapshot: Arc::clone(snapshot),
            facts: self.facts.borrow().clone(),
        };
        sync.apply(actions).await
    }

    /// When the pod is due after a sync: for a retry, or because its volumes have to be refreshed.
    pub(super) fn next_sync(&self, uid: &str, result: &SyncResult) -> NextSync {
        let next = result.next_sync(self.clock.now());
        [next, self.until_volume_refresh(uid)].into_iter().flatten().min()
    }

    /// Forgets a removed pod.
    pub(super) fn remove_pod(&self, uid: &str) {
        self.images.remove_pod(uid);
        self.restart_backoff.lock().remove(|(pod, ..)| pod == uid);
    }

    pub(super) fn directories(&self) -> &PodDirectories {
        self.volumes.directories()
    }

    fn until_volume_refresh(&self, uid: &str) -> NextSync {
        let volumes_refreshed = self.store.read(uid, |entry| entry.volumes_refreshed)??;
        let due = volumes_refreshed + self.volume_refresh_period(uid);
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Period of volume remounts of this pod, spread over pods to avoid bursts.
    pub(super) fn volume_refresh_period(&self, uid: &str) -> Duration {
        let every = self.settings.refresh;
        let part = uid.bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        }) % 50;
        every + every * part / 100
    }
}

// --- RestartBackoff ---

impl RestartBackoff {
    pub(super) fn new() -> Self {
        RestartBackoff {
            delays: Mutex::new(KeyedBackoff::new(RESTART_BACKOFF)),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, KeyedBackoff<(String, String, String)>> {
        self.delays.lock()
    }
}
