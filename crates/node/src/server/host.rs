//! Interface of the kubelet server to the agent.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::time;

use crate::runtime::{ContainerId, Runtime, RuntimeError, SandboxId, SandboxState};

/// Timeout of runtime calls.
const RUNTIME_TIMEOUT: Duration = Duration::from_mins(2);

/// Pods and runtime of the node, as the kubelet server needs them.
// upstream: pkg/kubelet/server/server.go HostInterface
#[async_trait]
pub trait HostInterface: Send + Sync + 'static {
    /// The container runtime, once detected.
    fn runtime(&self) -> Option<Arc<dyn Runtime>>;

    /// All pods of this node with their newest statuses, which may not have been written to the API yet.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// A pod by name.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.pods().into_iter().find(|pod| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.metadata.name.as_deref() == Some(name)
        })
    }

    /// UID of a pod in the runtime. For a mirror pod that of its static pod.
    fn runtime_uid(&self, pod: &Pod) -> String {
        pod.metadata.uid.clone().unwrap_or_default()
    }

    /// The running container of a pod with this name.
    async fn container(&self, pod: &Pod, name: &str) -> Result<Option<ContainerId>, RuntimeError> {
        let uid = self.runtime_uid(pod);
        let runtime = self.runtime().ok_or_else(no_runtime)?;
        let containers = with_timeout("listing containers", runtime.list_containers()).await?;
        let found = containers
            .into_iter()
            .find(|container| container.pod.uid == uid && container.name == name && container.is_running());
        Ok(found.map(|container| container.id))
    }

    /// The ready sandbox of a pod.
    async fn sandbox(&self, pod: &Pod) -> Result<Option<SandboxId>, RuntimeError> {
        let uid = self.runtime_uid(pod);
        let runtime = self.runtime().ok_or_else(no_runtime)?;
        let sandboxes = with_timeout("listing sandboxes", runtime.list_pod_sandboxes()).await?;
        let found = sandboxes
            .into_iter()
            .find(|sandbox| sandbox.pod.uid == uid && sandbox.state == SandboxState::Ready);
        Ok(found.map(|sandbox| sandbox.id))
    }

    /// Problems for `/healthz`; empty if the agent is healthy.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// The configuration for `/configz`.
    fn configuration(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }

    /// Metrics of the agent, in the Prometheus text format.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Metrics of probes, in the Prometheus text format.
    fn probe_metrics(&self) -> String {
        String::new()
    }
}

/// The error while no runtime is detected.
pub(super) fn no_runtime() -> RuntimeError {
    RuntimeError::Unreachable {
        runtime: "the container runtime".to_owned(),
        reason: "no runtime was found yet".to_owned(),
    }
}

/// Limits the duration of a runtime call.
pub(super) async fn with_timeout<T>(
    operation: &str,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    time::timeout(RUNTIME_TIMEOUT, call).await.unwrap_or_else(|_| {
        Err(RuntimeError::Timeout {
            what: operation.to_owned(),
            after: RUNTIME_TIMEOUT,
        })
    })
}
