//! Removes what terminated pods leave on the node: volumes, containers, directories, logs.
// upstream: pkg/kubelet/kubelet_pods.go HandlePodCleanups

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::{
    PodSettings,
    cache::RuntimeSnapshot,
    log_directories,
    status::{PodSnapshot, PodWorkerState},
    store::{PodEntry, PodSource, PodStore},
};
use crate::{
    PodIdentity,
    blocking::run_blocking,
    images::with_timeout,
    runtime::{Runtime, RuntimeError},
    volumes::{VolumeManager, VolumeManagerError},
};

/// Cleans up after pods.
pub(super) struct PodCleaner {
    store: Arc<PodStore>,
    volumes: Arc<VolumeManager>,
    settings: PodSettings,
}

/// Why a pod could not be cleaned up. Retry.
#[derive(Debug, thiserror::Error)]
pub(super) enum PodCleanupError {
    #[error("failed to remove containers: {0}")]
    Containers(#[from] RuntimeError),
    #[error("failed to remove the directory of the pod: {0}")]
    Directory(#[from] VolumeManagerError),
}

// --- PodCleaner ---

impl PodCleaner {
    pub(super) fn new(store: Arc<PodStore>, volumes: Arc<VolumeManager>, settings: PodSettings) -> Self {
        PodCleaner {
            store,
            volumes,
            settings,
        }
    }

    /// Unmounts the volumes of a pod whose containers all terminated, once.
    pub(super) async fn unmount_volumes(&self, pod: &PodIdentity) -> Result<(), VolumeManagerError> {
        if self.store.read(&pod.uid, |entry| entry.volumes_released) == Some(true) {
            return Ok(());
        }
        self.volumes.unmount_pod_volumes(pod).await?;
        self.store.update(&pod.uid, |entry| entry.volumes_released = true);
        Ok(())
    }

    /// Removes containers, directory and logs of a pod.
    pub(super) async fn remove_pod(
        &self,
        pod: &PodIdentity,
        runtime: &dyn Runtime,
        snapshot: &PodSnapshot,
    ) -> Result<(), PodCleanupError> {
        self.remove_containers(runtime, snapshot).await?;
        self.volumes.remove_pod_directory(pod).await?;
        let logs = self.settings.log_directory(pod);
        run_blocking(move || log_directories::remove(&logs)).await;
        Ok(())
    }

    /// Whether the node may have containers of a pod. Does not ask the runtime.
    pub(super) async fn has_directory(&self, uid: &str) -> bool {
        let directory = self.volumes.directories().pod(uid);
        // If that is unknown, assume one.
        tokio::fs::try_exists(directory).await.unwrap_or(true)
    }

    /// Terminates the containers of pods that are not in the store.
    pub(super) fn terminate_orphans(&self, runtime_snapshot: &RuntimeSnapshot) {
        for pod in runtime_snapshot.pods() {
            let mut entries = self.store.lock();
            if entries.contains_key(&pod.uid) {
                continue;
            }
            tracing::info!(pod = %pod, "terminating containers of an unknown pod");
            let mut orphan = Pod::default();
            orphan.metadata.namespace = Some(pod.namespace.clone());
            orphan.metadata.name = Some(pod.name.clone());
            orphan.metadata.uid = Some(pod.uid.clone());
            let mut entry = PodEntry::new(Arc::new(orphan), PodSource::Runtime);
            entry.is_removed = true;
            entry.worker_state = PodWorkerState::Terminating;
            entries.insert(pod.uid.clone(), entry);
        }
    }

    /// Unmounts volumes and removes directories of removed pods, for example of pods that were deleted while
    /// the agent was down.
    pub(super) async fn remove_orphaned_directories(&self) {
        let orphaned = match self.volumes.list_pods_from_disk().await {
            Ok(orphaned) => orphaned,
            Err(error) => {
                tracing::warn!(%error, "failed to list directories of removed pods");
                return;
            }
        };
        for uid in orphaned {
            if self.store.lock().contains_key(&uid) {
                continue;
            }
            let pod = PodIdentity {
                uid,
                ..PodIdentity::default()
            };
            if let Err(error) = self.volumes.remove_pod_directory(&pod).await {
                tracing::warn!(pod = pod.uid, %error, "failed to remove the directory of an orphaned pod");
            }
        }
        self.remove_orphaned_logs().await;
    }

    /// Removes logs of removed pods, if the log directory belongs to this node: in a shared directory, other agents of this machine
    /// may have logs.
    async fn remove_orphaned_logs(&self) {
        let settings = &self.settings;
        if !settings.logs.starts_with(&settings.root) {
            return;
        }
        let logs = settings.logs.clone();
        for (uid, directory) in run_blocking(move || log_directories::list(&logs)).await {
            if !self.store.lock().contains_key(&uid) {
                run_blocking(move || log_directories::remove(&directory)).await;
            }
        }
    }

    /// Removes all containers and sandboxes of a pod.
    async fn remove_containers(
        &self,
        runtime: &dyn Runtime,
        snapshot: &PodSnapshot,
    ) -> Result<(), RuntimeError> {
        let limit = self.settings.stop_limit;
        for instance in &snapshot.containers {
            with_timeout(limit, "RemoveContainer", runtime.remove_container(&instance.id)).await?;
        }
        for sandbox in &snapshot.sandboxes {
            with_timeout(limit, "StopPodSandbox", runtime.stop_pod_sandbox(&sandbox.id)).await?;
            with_timeout(limit, "RemovePodSandbox", runtime.remove_pod_sandbox(&sandbox.id)).await?;
        }
        Ok(())
    }
}
