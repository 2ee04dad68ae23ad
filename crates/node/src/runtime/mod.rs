//! Container runtimes behind one trait: the Docker Engine API (Docker, Podman) and CRI (containerd, CRI-O).
//!
//! ```text
//! spec     configuration of sandboxes, containers, mounts, resources
//! state    sandboxes, containers, images and stats that a runtime reports
//! stream   exec, attach, port forwarding, logs
//! error    errors, and the reasons that the kubelet reports for them
//! detect   which runtime this machine has
//! cri      containerd, CRI-O; docker: Docker, Podman; fake: in memory, for tests
//! cni      pod network for CRI runtimes without one
//! ```
//!
//! Promises of every implementation:
//! It lists, stops and removes only sandboxes and containers with the labels of its [`ContainerOwner`].
//! Stopping a stopped container and removing a missing one succeed.
//! A call may be dropped at any time; what it created appears in the next list.
//! A call for one pod does not wait for calls for other pods.

pub mod cni;
pub mod cri;
pub mod detect;
pub mod docker;
mod error;
#[cfg(test)]
pub mod fake;
mod network_namespace;
mod owner;
mod spec;
mod state;
mod stream;

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

pub use self::{
    error::RuntimeError,
    owner::{AdoptedPods, ContainerOwner},
    spec::{
        Capabilities, ContainerResources, ContainerSecurity, ContainerSpec, Device, DnsSpec, HostEntry,
        MASKED_PATHS, Mount, MountPropagation, MountSource, NamespaceMode, PortMapping, ProcessUser,
        Protocol, PullSecret, READ_ONLY_PATHS, SandboxSpec, SecurityProfile, labels,
    },
    state::{
        Container, ContainerExit, ContainerId, ContainerState, ContainerStats, FilesystemUsage, Image,
        PodLifecycleEvent, RuntimeStatus, RuntimeVersion, Sandbox, SandboxId, SandboxState,
    },
    stream::{
        ExecOutput, ExecSpec, LogLine, LogOptions, LogStream, PortStream, ProcessStreams, TerminalSize,
    },
};

/// A container runtime. Methods are named after CRI.
// upstream: pkg/kubelet/container/runtime.go Runtime
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Returns name and version, for the node's `containerRuntimeVersion`.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go Version
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError>;

    /// Returns whether the runtime can run pods, and if not, why.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go Status
    async fn status(&self) -> Result<RuntimeStatus, RuntimeError>;

    /// Returns a stream of events of this owner's pods. The stream ends with the connection; events between two streams are lost, so
    /// callers list after opening one.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go GetContainerEvents
    async fn container_events(&self) -> Result<BoxStream<'static, PodLifecycleEvent>, RuntimeError>;

    // --- Pod sandboxes ---

    /// Creates and starts a sandbox. Returns [`RuntimeError::NameTaken`] if a foreign container has its name.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go RunPodSandbox
    async fn run_pod_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError>;

    /// Stops a sandbox with all its containers, and removes its network.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go StopPodSandbox
    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;

    /// Removes a sandbox with all its containers.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go RemovePodSandbox
    async fn remove_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;

    /// Lists this owner's sandboxes, with the IPs of running ones.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go ListPodSandbox
    async fn list_pod_sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError>;

    /// Returns the IPs of a sandbox of this owner; empty if it was removed or does not run.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go PodSandboxStatus
    async fn pod_sandbox_ips(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError>;

    // --- Containers ---

    /// Creates a container. Its image must be present.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go CreateContainer
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError>;

    /// Starts a created container.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go StartContainer
    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Stops a container: stop signal, then SIGKILL after `grace`.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go StopContainer
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError>;

    /// Removes a stopped container and its log.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go RemoveContainer
    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Lists this owner's containers, including exited ones, with everything that the pod status needs.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go ListContainers
    async fn list_containers(&self) -> Result<Vec<Container>, RuntimeError>;

    /// Returns the number of sandboxes and containers of other clusters, by cluster UID; empty key where they have no cluster label.
    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError>;

    /// Updates the resources of a running container.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go UpdateContainerResources
    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &ContainerResources,
    ) -> Result<(), RuntimeError>;

    // --- Images ---

    /// Returns the image IDs or names of all containers on this machine, of any owner.
    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError>;

    /// Returns an image, if it is present.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_image.go ImageStatus
    async fn image_status(&self, name: &str) -> Result<Option<Image>, RuntimeError>;

    /// Lists all images on this machine.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_image.go ListImages
    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError>;

    /// Pulls an image, and returns the reference for creating containers.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_image.go PullImage
    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError>;

    /// Removes an unused image.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_image.go RemoveImage
    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError>;

    // --- Streams ---

    /// Runs a command in a container, and waits for its exit, at most for `limit`.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go ExecSync
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError>;

    /// Runs a command in a container, with streams.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go Exec
    async fn exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError>;

    /// Attaches to the first process of a container.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go Attach
    async fn attach(&self, id: &ContainerId, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError>;

    /// Connects to a port of the loopback address inside a sandbox.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go PortForward
    async fn port_forward(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError>;

    /// Reads a container's log; with [`LogOptions::follow`] until the container exits.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go GetContainerLogs
    async fn container_logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError>;

    /// Rotates logs larger than `max` bytes, and keeps `keep` rotated files.
    // upstream: pkg/kubelet/logs/container_log_manager.go rotateLogs
    async fn rotate_logs(&self, max: u64, keep: usize) -> Result<(), RuntimeError>;

    // --- Stats ---

    /// Returns the resource usage of this owner's running containers. A container that exits meanwhile is omitted.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_runtime.go ListContainerStats
    async fn list_container_stats(&self) -> Result<Vec<ContainerStats>, RuntimeError>;

    /// Returns the disk usage of images, and the path of their filesystem.
    // upstream: staging/src/k8s.io/cri-client/pkg/remote_image.go ImageFsInfo
    async fn image_fs_info(&self) -> Result<FilesystemUsage, RuntimeError>;
}
