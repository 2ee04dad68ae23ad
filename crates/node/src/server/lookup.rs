//! What the server asks the rest of the agent.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::time;

use crate::runtime::{ContainerId, Runtime, RuntimeError, SandboxId, SandboxState};

/// How long the runtime may take to tell what is there.
const PATIENCE: Duration = Duration::from_mins(2);

/// Finds pods, and what they are in the runtime.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// What runs containers, if something does.
    fn runtime(&self) -> Option<Arc<dyn Runtime>>;

    /// All pods of this node, with the statuses that the agent knows, which may be newer than those of the API.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// A pod by its name.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods().into_iter().find(|pod| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.metadata.name.as_deref() == Some(name)
        })
    }

    /// By which uid the runtime knows a pod. Mirrored pods are known by that of the file they come from.
    fn runtime_uid(&self, pod: &Pod) -> String {
        pod.metadata.uid.clone().unwrap_or_default()
    }

    /// The container of a pod that runs now.
    async fn container(&self, pod: &Pod, name: &str) -> Result<Option<ContainerId>, RuntimeError> {
        let uid = self.runtime_uid(pod);
        let runtime = self.runtime().ok_or_else(no_runtime)?;
        let containers = limited("listing containers", runtime.containers()).await?;
        let found = containers
            .into_iter()
            .find(|container| container.pod.uid == uid && container.name == name && container.is_running());
        Ok(found.map(|container| container.id))
    }

    /// The sandbox of a pod that is there now.
    async fn sandbox(&self, pod: &Pod) -> Result<Option<SandboxId>, RuntimeError> {
        let uid = self.runtime_uid(pod);
        let runtime = self.runtime().ok_or_else(no_runtime)?;
        let sandboxes = limited("listing sandboxes", runtime.sandboxes()).await?;
        let found = sandboxes
            .into_iter()
            .find(|sandbox| sandbox.pod.uid == uid && sandbox.state == SandboxState::Ready);
        Ok(found.map(|sandbox| sandbox.id))
    }

    /// Why the agent does not do its work; empty if it does.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// The agent's settings, as `/configz` shows them under `kubeletconfig`.
    fn settings(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }

    /// The agent's own figures, in the text that Prometheus reads.
    fn metrics(&self) -> String {
        String::new()
    }

    /// The figures of probes, in the same text.
    fn probe_metrics(&self) -> String {
        String::new()
    }
}

/// Nothing runs containers now.
pub(super) fn no_runtime() -> RuntimeError {
    RuntimeError::Unreachable {
        runtime: "the container runtime".to_owned(),
        reason: "none was found yet".to_owned(),
    }
}

/// Waits for a runtime, but not for ever.
pub(super) async fn limited<T>(
    what: &str,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    time::timeout(PATIENCE, call).await.unwrap_or_else(|_| {
        Err(RuntimeError::Timeout {
            what: what.to_owned(),
            after: PATIENCE,
        })
    })
}
