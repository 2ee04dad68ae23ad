//! containerd and CRI-O, through CRI v1.
//!
//! ```text
//! messages          what goes over the socket
//! connection        calls, each with a limit; failure: what went wrong
//! sandbox_config    what is asked for, in the protocol's words; container_config, signal
//! state             what is told, in the agent's words; known: what need not be asked again
//! sandboxes         the calls themselves; containers, images, streams, usage, itself
//! changes           events where the runtime has them, comparing lists where not
//! logs              files that the runtime writes: read, followed, rotated, removed
//! streaming         exec and attach
//! ```
//!
//! A runtime of CRI knows neither limits of processes on cgroups of the first version nor, before containerd 2.1 and CRI-O 1.31,
//! volumes of images; the latter are refused with words that say so.

mod cgroup;
mod changes;
mod connection;
mod container_config;
mod containers;
mod failure;
mod images;
mod itself;
mod known;
mod logs;
mod messages;
mod sandbox_config;
mod sandboxes;
mod signal;
mod state;
mod streaming;
mod streams;
#[cfg(test)]
mod tests;
mod usage;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    os::unix::fs::FileTypeExt,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use prost::Message;

use self::{
    connection::Connection,
    container_config::Cgroups,
    failure::{Failure, Words},
    known::Known,
};
use super::{
    Attached, Change, Container, ContainerId, ContainerSpec, ContainerUsage, ExecOutput, ExecSpec,
    FilesystemUsage, Image, LogLine, LogOptions, Owner, PortStream, PullSecret, Readiness, Resources,
    Runtime, RuntimeError, Sandbox, SandboxId, SandboxSpec, Version, labels, network::BridgeNetwork,
};

/// How long calls may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To make and start sandboxes and containers. Default: 2 minutes.
    pub start: Duration,
    /// To stop them, beyond the time that a container is given. Default: 30 seconds.
    pub stop: Duration,
    /// To tell something. Default: 30 seconds; an agent that cannot list for that long reports its node as not ready.
    pub query: Duration,
    /// To bring an image. Default: one hour, as large images come over slow lines.
    pub pull: Duration,
}

/// A runtime that speaks CRI v1.
#[derive(Debug)]
pub struct Cri {
    connection: Connection,
    owner: Owner,
    limits: Limits,
    cgroups: Cgroups,
    network: Option<BridgeNetwork>,
    known: Arc<Known>,
    /// Set once the runtime refused the `WebSockets` that are asked for first.
    speaks_spdy: AtomicBool,
}

// --- Limits ---

impl Default for Limits {
    fn default() -> Self {
        Limits {
            start: Duration::from_mins(2),
            stop: Duration::from_secs(30),
            query: Duration::from_secs(30),
            pull: Duration::from_hours(1),
        }
    }
}

// --- Cri ---

impl Cri {
    /// The runtime at a socket. Nothing is sent yet, and a connection that breaks later is made again with the next call; but there
    /// must be a socket. Must be called inside a Tokio runtime.
    pub fn connect(socket: &Path, owner: Owner) -> Result<Self, RuntimeError> {
        let unreachable = |reason: String| RuntimeError::Unreachable {
            runtime: format!("the container runtime at {}", socket.display()),
            reason,
        };
        let file = std::fs::metadata(socket).map_err(|error| unreachable(error.to_string()))?;
        if !file.file_type().is_socket() {
            return Err(unreachable("that is no socket".to_owned()));
        }
        Ok(Cri {
            connection: Connection::new(socket),
            owner,
            limits: Limits::default(),
            cgroups: cgroup::version(),
            network: None,
            known: Arc::default(),
            speaks_spdy: AtomicBool::new(false),
        })
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Cri { limits, ..self }
    }

    /// The same, with a network for pods that is set up where the runtime has none.
    #[must_use]
    pub fn with_network(self, network: BridgeNetwork) -> Self {
        Cri {
            network: Some(network),
            ..self
        }
    }

    /// Asks something that must be told within the usual limit.
    async fn query<Q, R>(&self, method: &'static str, request: Q, what: &str) -> Result<R, RuntimeError>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let limit = self.limits.query;
        let answer = self.connection.call(method, request, limit).await;
        answer.map_err(|failure| self.explain(failure, what, limit))
    }

    fn explain(&self, failure: Failure, what: &str, limit: Duration) -> RuntimeError {
        failure.explain(what, limit, self.connection.socket(), Words::Plain)
    }

    /// Refuses what is somebody else's.
    fn must_be_ours(
        &self,
        what: &str,
        id: &str,
        told: &BTreeMap<String, String>,
    ) -> Result<(), RuntimeError> {
        if self.owner.owns(|name| told.get(name)) {
            return Ok(());
        }
        Err(RuntimeError::Refused(format!(
            "{what} {id} is not of the node {} of this cluster, and is left alone",
            self.owner.node
        )))
    }

    /// By what our sandboxes and containers are found, among those of nodes of other clusters with the same name.
    fn ours(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(labels::NODE.to_owned(), self.owner.node.clone())])
    }
}

/// What is gone has been stopped and removed.
fn gone<T: Default>(done: Result<T, Failure>) -> Result<T, Failure> {
    match done {
        Err(failure) if failure.is_not_found() => Ok(T::default()),
        other => other,
    }
}

#[async_trait]
impl Runtime for Cri {
    async fn version(&self) -> Result<Version, RuntimeError> {
        self.tell_version().await
    }

    async fn readiness(&self) -> Result<Readiness, RuntimeError> {
        self.tell_readiness().await
    }

    async fn changes(&self) -> Result<BoxStream<'static, Change>, RuntimeError> {
        let changes = changes::stream(&self.connection, &self.owner, self.limits.query).await;
        changes.map_err(|failure| self.explain(failure, "events of containers", self.limits.query))
    }

    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        self.make_sandbox(spec).await
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.end_sandbox(id).await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.delete_sandbox(id).await
    }

    async fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        self.list_sandboxes().await
    }

    async fn addresses(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        self.addresses_of(&id.0).await
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        self.make_container(sandbox, pod, spec).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.begin_container(id).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.end_container(id, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.delete_container(id).await
    }

    async fn containers(&self) -> Result<Vec<Container>, RuntimeError> {
        self.list_containers().await
    }

    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        self.count_other_clusters().await
    }

    async fn update_resources(&self, id: &ContainerId, resources: &Resources) -> Result<(), RuntimeError> {
        self.change_resources(id, resources).await
    }

    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        self.list_images_in_use().await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        self.find_image(name).await
    }

    async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.list_images().await
    }

    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        self.bring_image(name, secret).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.delete_image(id).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        self.run_command(id, command, limit).await
    }

    async fn exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        self.stream(id, spec, streaming::Purpose::Exec).await
    }

    async fn attach(&self, id: &ContainerId, spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        self.stream(id, spec, streaming::Purpose::Attach).await
    }

    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        self.reach(id, port).await
    }

    async fn logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        self.read_log(id, options).await
    }

    async fn rotate_logs(&self, most: u64, keep: usize) -> Result<(), RuntimeError> {
        self.rotate(most, keep).await
    }

    async fn usage(&self) -> Result<Vec<ContainerUsage>, RuntimeError> {
        self.tell_usage().await
    }

    async fn image_filesystem(&self) -> Result<FilesystemUsage, RuntimeError> {
        self.tell_image_filesystem().await
    }
}
