//! containerd and CRI-O, through CRI v1.
//!
//! ```text
//! messages          messages and methods of CRI v1
//! connection        gRPC calls with a timeout; error: their errors
//! sandbox_config    messages from specs; container_config, signal
//! convert           sandboxes, containers and images from messages; status_cache: container statuses, pod IPs, PIDs
//! sandboxes         the calls of the `Runtime` trait; containers, images, exec, stats, runtime_status
//! events            container events, or a list every second
//! logs              log files: read, followed, rotated, removed
//! streaming         exec and attach
//! ```
//!
//! Limits: cgroup v1 hosts have no PID limit per container; image volumes need containerd 2.1 or CRI-O 1.31 and are rejected otherwise.

mod cgroup;
mod connection;
mod container_config;
mod containers;
mod convert;
mod error;
mod events;
mod exec;
mod images;
mod logs;
mod messages;
mod runtime_status;
mod sandbox_config;
mod sandboxes;
mod signal;
mod socket;
mod stats;
mod status_cache;
mod streaming;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use prost::Message;

use self::{
    connection::CriConnection,
    container_config::CgroupVersion,
    error::{CriError, MessageFormat},
    status_cache::StatusCache,
};
use super::{
    Container, ContainerId, ContainerOwner, ContainerResources, ContainerSpec, ContainerStats, ExecOutput,
    ExecSpec, FilesystemUsage, Image, LogLine, LogOptions, PodLifecycleEvent, PortStream, ProcessStreams,
    PullSecret, Runtime, RuntimeError, RuntimeStatus, RuntimeVersion, Sandbox, SandboxId, SandboxSpec,
    cni::CniBridge, labels,
};

/// Timeouts of CRI calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// Create and start sandboxes and containers. Default: 2 minutes.
    pub start: Duration,
    /// Stop sandboxes and containers, beyond the grace period. Default: 30 seconds.
    pub stop: Duration,
    /// Lists and statuses. Default: 30 seconds; an agent that cannot list for that long reports its node as not ready.
    pub query: Duration,
    /// Pull an image. Default: one hour, for large images on slow networks.
    pub pull: Duration,
}

/// A CRI v1 runtime.
// upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go remoteRuntimeService
#[derive(Debug)]
pub struct CriRuntime {
    connection: CriConnection,
    owner: ContainerOwner,
    timeouts: CallTimeouts,
    cgroups: CgroupVersion,
    network: Option<CniBridge>,
    status_cache: Arc<StatusCache>,
    /// Whether the runtime rejected `WebSockets`, which are tried first.
    uses_spdy: AtomicBool,
}

// --- CallTimeouts ---

impl Default for CallTimeouts {
    fn default() -> Self {
        CallTimeouts {
            start: Duration::from_mins(2),
            stop: Duration::from_secs(30),
            query: Duration::from_secs(30),
            pull: Duration::from_hours(1),
        }
    }
}

// --- CriRuntime ---

impl CriRuntime {
    /// Creates a client of the runtime at `socket`, which must exist. The first call connects; later calls reconnect. Must be called inside a
    /// Tokio runtime.
    pub fn connect(socket: &Path, owner: ContainerOwner) -> Result<Self, RuntimeError> {
        socket::check(socket).map_err(|error| RuntimeError::Unreachable {
            runtime: format!("the container runtime at {}", socket.display()),
            reason: error.to_string(),
        })?;
        Ok(CriRuntime {
            connection: CriConnection::new(socket),
            owner,
            timeouts: CallTimeouts::default(),
            cgroups: cgroup::detect_cgroup_version(),
            network: None,
            status_cache: Arc::default(),
            uses_spdy: AtomicBool::new(false),
        })
    }

    /// Sets other timeouts.
    #[must_use]
    pub fn with_timeouts(self, timeouts: CallTimeouts) -> Self {
        CriRuntime { timeouts, ..self }
    }

    /// Sets a pod network that is configured if the runtime has none.
    #[must_use]
    pub fn with_network(self, network: CniBridge) -> Self {
        CriRuntime {
            network: Some(network),
            ..self
        }
    }

    /// Calls with the query timeout.
    async fn query<Q, R>(&self, method: &'static str, request: Q, what: &str) -> Result<R, RuntimeError>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let limit = self.timeouts.query;
        let answer = self.connection.call(method, request, limit).await;
        answer.map_err(|error| self.runtime_error(error, what, limit))
    }

    fn runtime_error(&self, error: CriError, what: &str, limit: Duration) -> RuntimeError {
        error.into_runtime_error(what, limit, self.connection.socket(), MessageFormat::Plain)
    }

    /// Rejects calls for sandboxes and containers of other owners.
    fn check_ownership(
        &self,
        what: &str,
        id: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), RuntimeError> {
        if self.owner.owns(|name| labels.get(name)) {
            return Ok(());
        }
        Err(RuntimeError::OperationFailed(format!(
            "{what} {id} does not belong to node {} of this cluster",
            self.owner.node
        )))
    }

    /// Label selector of this node. Nodes of other clusters may have the same name, so callers check the owner as well.
    fn node_selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(labels::NODE.to_owned(), self.owner.node.clone())])
    }
}

/// Stopping and removing missing sandboxes and containers succeeds.
fn ignore_not_found<T: Default>(done: Result<T, CriError>) -> Result<T, CriError> {
    match done {
        Err(error) if error.is_not_found() => Ok(T::default()),
        other => other,
    }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        self.query_version().await
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        self.query_status().await
    }

    async fn container_events(&self) -> Result<BoxStream<'static, PodLifecycleEvent>, RuntimeError> {
        let changes = events::stream(&self.connection, &self.owner, self.timeouts.query).await;
        changes.map_err(|error| self.runtime_error(error, "container events", self.timeouts.query))
    }

    async fn run_pod_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        self.create_sandbox(spec).await
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.stop_own_sandbox(id).await
    }

    async fn remove_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.remove_own_sandbox(id).await
    }

    async fn list_pod_sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        self.query_sandboxes().await
    }

    async fn pod_sandbox_ips(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        self.addresses_of(&id.0).await
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        self.create_container_in_sandbox(sandbox, pod, spec).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.start_created_container(id).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.stop_own_container(id, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.remove_own_container(id).await
    }

    async fn list_containers(&self) -> Result<Vec<Container>, RuntimeError> {
        self.query_containers().await
    }

    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        self.count_other_clusters().await
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &ContainerResources,
    ) -> Result<(), RuntimeError> {
        self.update_resources(id, resources).await
    }

    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        self.list_images_in_use().await
    }

    async fn image_status(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        self.query_image(name).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.query_images().await
    }

    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        self.pull(name, secret).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.remove_image_by_id(id).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        self.exec_and_wait(id, command, limit).await
    }

    async fn exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        self.stream(id, spec, streaming::StreamPurpose::Exec).await
    }

    async fn attach(&self, id: &ContainerId, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        self.stream(id, spec, streaming::StreamPurpose::Attach).await
    }

    async fn port_forward(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        self.forward_port(id, port).await
    }

    async fn container_logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        self.read_log(id, options).await
    }

    async fn rotate_logs(&self, max: u64, keep: usize) -> Result<(), RuntimeError> {
        self.rotate(max, keep).await
    }

    async fn list_container_stats(&self) -> Result<Vec<ContainerStats>, RuntimeError> {
        self.query_stats().await
    }

    async fn image_fs_info(&self) -> Result<FilesystemUsage, RuntimeError> {
        self.query_image_fs_info().await
    }
}
