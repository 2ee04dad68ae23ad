//! Queries of the kubelet server about pods.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use super::{manager::PodManager, store::PodSource};
use crate::{
    runtime::{ContainerId, ContainerState, Runtime, RuntimeError, SandboxId},
    server::HostInterface,
};

#[async_trait]
impl HostInterface for PodManager {
    fn runtime(&self) -> Option<Arc<dyn Runtime>> {
        self.runtime.borrow().clone()
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.list().into_iter().map(Arc::new).collect()
    }

    fn runtime_uid(&self, pod: &Pod) -> String {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let entries = self.store.lock();
        // Requests name the UID of the mirror pod.
        let mirrored = entries.iter().find(|(_, entry)| match &entry.source {
            PodSource::File(Some(mirror)) => mirror.metadata.uid.as_ref() == Some(&uid),
            _ => false,
        });
        mirrored.map_or(uid, |(static_pod_uid, _)| static_pod_uid.clone())
    }

    async fn container(&self, pod: &Pod, name: &str) -> Result<Option<ContainerId>, RuntimeError> {
        let snapshot = self.current_snapshot(&self.runtime_uid(pod)).await?;
        let newest = snapshot.newest(name);
        let running = newest.filter(|instance| matches!(instance.state, ContainerState::Running { .. }));
        Ok(running.map(|instance| instance.id.clone()))
    }

    async fn sandbox(&self, pod: &Pod) -> Result<Option<SandboxId>, RuntimeError> {
        let snapshot = self.current_snapshot(&self.runtime_uid(pod)).await?;
        Ok(snapshot.ready_sandbox().map(|sandbox| sandbox.id.clone()))
    }
}
