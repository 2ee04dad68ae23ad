//! Brings the containers of pods to what their specs ask for.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go kubeGenericRuntimeManager

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::Clock;
use tokio::sync::watch;

use super::{
    PodSettings,
    actions::PodActions,
    allocation_manager::AllocationManager,
    events::PodEventRecorder,
    restart_backoff::RestartBackoff,
    start_limiter::StartLimiter,
    status::PodSnapshot,
    store::PodStore,
    sync::{PodSync, SyncResult},
    volume_refresher::VolumeRefresher,
    workers::NextSync,
};
use crate::{
    NodeFacts,
    images::ImageManager,
    runtime::Runtime,
    sources::ObjectSources,
    volumes::{PodDirectories, VolumeManager},
};

/// Starts, updates and stops the containers of pods.
pub(super) struct RuntimeManager {
    pub settings: PodSettings,
    pub store: Arc<PodStore>,
    pub allocation_manager: Arc<AllocationManager>,
    pub images: ImageManager,
    pub volumes: Arc<VolumeManager>,
    pub volume_refresher: VolumeRefresher,
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
        [next, self.volume_refresher.until_refresh(uid)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Forgets a removed pod.
    pub(super) fn remove_pod(&self, uid: &str) {
        self.images.remove_pod(uid);
        self.restart_backoff.remove_pod(uid);
    }

    pub(super) fn directories(&self) -> &PodDirectories {
        self.volumes.directories()
    }
}
