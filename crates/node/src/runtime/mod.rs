//! What runs containers, behind one trait: the Docker Engine API (Docker, Podman) and CRI (containerd, CRI-O).
//!
//! ```text
//! spec     what is asked for: sandboxes, containers, mounts, resources
//! state    what is there: sandboxes, containers, images, their figures
//! stream   bytes to and from a container: exec, attach, ports, logs
//! error    what can go wrong, and what the kubelet calls it
//! ```
//!
//! Promises of every implementation:
//! - It lists, stops and removes only what carries the labels of its [`Owner`].
//! - Stopping what has stopped and removing what is gone succeeds.
//! - A call may be dropped at any time; what it began is seen in the next list.
//! - No call waits for another pod's.

pub mod cri;
pub mod detect;
pub mod engine;
mod error;
#[cfg(test)]
pub mod fake;
mod namespace;
pub mod network;
mod owner;
mod spec;
mod state;
mod stream;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

pub use self::{
    error::RuntimeError,
    owner::{AdoptedPods, Owner},
    spec::{
        Capabilities, Confinement, ContainerSpec, Device, DnsSpec, HostEntry, Identity, MASKED_PATHS, Mount,
        MountSource, NamespaceMode, PortMapping, Propagation, Protocol, PullSecret, READ_ONLY_PATHS,
        Resources, SandboxSpec, Security, labels,
    },
    state::{
        Change, Container, ContainerId, ContainerState, ContainerUsage, Exit, FilesystemUsage, Image,
        Readiness, Sandbox, SandboxId, SandboxState, Version,
    },
    stream::{Attached, ExecOutput, ExecSpec, LogLine, LogOptions, LogStream, PortStream, TerminalSize},
};

/// A program that runs containers.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    // --- Itself ---

    /// Its name and version, as the node reports them.
    async fn version(&self) -> Result<Version, RuntimeError>;

    /// Whether it can run pods now, and if not, why.
    async fn readiness(&self) -> Result<Readiness, RuntimeError>;

    /// Wakes whoever listens when something of ours may have changed. The stream ends when the connection does; what happened
    /// between two streams is found by listing.
    async fn changes(&self) -> Result<BoxStream<'static, Change>, RuntimeError>;

    // --- Sandboxes: what the containers of a pod share ---

    /// Makes and starts a sandbox. With a name that somebody else holds: [`RuntimeError::NameTaken`].
    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError>;

    /// Ends a sandbox, all containers in it, and its network.
    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;

    /// Removes a sandbox and all containers in it.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;

    /// All of ours, with the addresses of those that run.
    async fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError>;

    /// The addresses of one of ours; none if it is gone or does not run.
    async fn addresses(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError>;

    // --- Containers ---

    /// Makes a container; its image is there already.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError>;

    /// Starts what was made.
    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Asks a container to end, and ends it after `grace`.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError>;

    /// Removes a container that has ended, with its log.
    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// All of ours, also those that have ended, with everything their status tells.
    async fn containers(&self) -> Result<Vec<Container>, RuntimeError>;

    /// How many sandboxes and containers there are of other clusters, by the uid of the cluster; empty where they carry none.
    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError>;

    /// Changes the resources of a container that runs.
    async fn update_resources(&self, id: &ContainerId, resources: &Resources) -> Result<(), RuntimeError>;

    // --- Images ---

    /// The images of all containers of this machine, whosever they are: by ids or names.
    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError>;

    /// An image, if it is on this machine.
    async fn image(&self, name: &str) -> Result<Option<Image>, RuntimeError>;

    /// All images on this machine, whoever brought them.
    async fn images(&self) -> Result<Vec<Image>, RuntimeError>;

    /// Brings an image, and tells its reference by which it is used.
    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError>;

    /// Removes an image that nothing uses.
    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError>;

    // --- Streams ---

    /// Runs a command in a container, and waits for its end, at most for `limit`.
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError>;

    /// Runs a command in a container, with streams.
    async fn exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<Attached, RuntimeError>;

    /// The streams of a container's first process.
    async fn attach(&self, id: &ContainerId, spec: &ExecSpec) -> Result<Attached, RuntimeError>;

    /// A connection to a port inside a sandbox, as if made from within it to its loopback address.
    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError>;

    /// What a container has written, and with [`LogOptions::follow`] what it will write until it ends.
    async fn logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError>;

    /// Begins new log files for containers that wrote more than `most` bytes, and keeps `keep` old ones.
    async fn rotate_logs(&self, most: u64, keep: usize) -> Result<(), RuntimeError>;

    // --- Figures ---

    /// What our containers use now. One that ends meanwhile is left out.
    async fn usage(&self) -> Result<Vec<ContainerUsage>, RuntimeError>;

    /// What images take on disk, and where.
    async fn image_filesystem(&self) -> Result<FilesystemUsage, RuntimeError>;
}
