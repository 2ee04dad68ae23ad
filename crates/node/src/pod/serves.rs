//! What the node's own API asks of pods.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use super::{known::Origin, pods::Pods};
use crate::{
    runtime::{ContainerId, ContainerState, Runtime, RuntimeError, SandboxId},
    server::Lookup,
};

#[async_trait]
impl Lookup for Pods {
    fn runtime(&self) -> Option<Arc<dyn Runtime>> {
        self.shared().parts.runtime.borrow().clone()
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.list().into_iter().map(Arc::new).collect()
    }

    fn runtime_uid(&self, pod: &Pod) -> String {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let entries = self.shared().known.lock();
        // Who asks by the mirror means the pod of the file.
        let mirrored = entries.iter().find(|(_, entry)| match &entry.origin {
            Origin::File(Some(mirror)) => mirror.metadata.uid.as_ref() == Some(&uid),
            _ => false,
        });
        mirrored.map_or(uid, |(known, _)| known.clone())
    }

    async fn container(&self, pod: &Pod, name: &str) -> Result<Option<ContainerId>, RuntimeError> {
        let seen = self.seen_now(&self.runtime_uid(pod)).await?;
        let newest = seen.newest(name);
        let running = newest.filter(|there| matches!(there.state, ContainerState::Running { .. }));
        Ok(running.map(|there| there.id.clone()))
    }

    async fn sandbox(&self, pod: &Pod) -> Result<Option<SandboxId>, RuntimeError> {
        let seen = self.seen_now(&self.runtime_uid(pod)).await?;
        Ok(seen.ready_sandbox().map(|sandbox| sandbox.id.clone()))
    }
}
