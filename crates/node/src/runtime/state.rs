//! Sandboxes, containers, images and stats that a runtime reports.

use std::{collections::BTreeMap, fmt, net::IpAddr, path::PathBuf};

use k8s_openapi::jiff::Timestamp;

use crate::PodIdentity;

/// ID of a sandbox in its runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxId(pub String);

/// ID of a container in its runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub String);

/// Name and version of a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// `docker`, `podman`, `containerd` or `cri-o`: the scheme of container IDs (`docker://...`).
    pub name: String,
    /// Version.
    pub version: String,
}

/// Whether a runtime can run pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// Reasons why it cannot; empty if it can.
    pub problems: Vec<String>,
    /// Whether the cgroup driver is `systemd`; otherwise `cgroupfs`.
    pub systemd_cgroups: bool,
}

/// A sandbox or container changed.
// upstream: pkg/kubelet/pleg/pleg.go PodLifecycleEvent
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodLifecycleEvent {
    /// Of this pod.
    Pod {
        /// Pod UID.
        uid: String,
    },
    /// Of an unknown pod: sync all.
    Any,
}

/// A pod sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// ID.
    pub id: SandboxId,
    /// Pod of the sandbox.
    pub pod: PodIdentity,
    /// Number of earlier sandboxes of the pod.
    pub attempt: u32,
    /// State.
    pub state: SandboxState,
    /// Creation time.
    pub created: Timestamp,
    /// Pod IPs, the primary one first; none with the host network, or while the sandbox does not run.
    pub addresses: Vec<IpAddr>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// State of a sandbox (CRI `PodSandboxState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Containers can be created in it.
    Ready,
    /// It stopped, or was never started.
    NotReady,
}

/// A container.
// upstream: pkg/kubelet/container/runtime.go Status
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// ID.
    pub id: ContainerId,
    /// Sandbox of the container.
    pub sandbox: SandboxId,
    /// Pod of the container.
    pub pod: PodIdentity,
    /// Name in the pod.
    pub name: String,
    /// Restart count.
    pub attempt: u32,
    /// Image as the pod spec names it.
    pub image: String,
    /// Image ID as the pod status reports it, with a digest if known.
    pub image_id: String,
    /// Creation time.
    pub created: Timestamp,
    /// State.
    pub state: ContainerState,
    /// Annotations from [`super::ContainerSpec::annotations`].
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// State of a container (CRI `ContainerState`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, not started.
    Created,
    /// Running.
    Running {
        /// Start time.
        started: Timestamp,
    },
    /// Exited.
    Exited(ContainerExit),
    /// The runtime does not know the state.
    Unknown,
}

/// Exit of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerExit {
    /// Exit code.
    pub code: i32,
    /// Signal that killed it, if known.
    pub signal: Option<i32>,
    /// Start time; `None` if it never started.
    pub started: Option<Timestamp>,
    /// Exit time.
    pub finished: Timestamp,
    /// Reason: `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError`.
    pub reason: String,
    /// Message of the runtime.
    pub message: String,
}

/// An image on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// ID for creating containers and removing the image.
    pub id: String,
    /// `name:tag`
    pub tags: Vec<String>,
    /// `name@sha256:...`
    pub digests: Vec<String>,
    /// Size in bytes.
    pub size: u64,
    /// UID that the image sets.
    pub user: Option<i64>,
    /// User name that the image sets.
    pub user_name: Option<String>,
    /// Whether image garbage collection must keep it.
    pub pinned: bool,
}

/// Resource usage of a container or sandbox (CRI `ContainerStats`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStats {
    /// Pod of the container.
    pub pod: PodIdentity,
    /// Container name; empty for the sandbox.
    pub name: String,
    /// Cumulative CPU time in nanoseconds.
    pub cpu_nanoseconds: u64,
    /// Memory usage in bytes.
    pub memory: u64,
    /// Memory working set in bytes: usage without inactive file cache.
    pub memory_working_set: u64,
    /// Size of the writable layer in bytes.
    pub writable_layer: u64,
    /// Number of processes.
    pub pids: u64,
    /// Bytes received and sent by the pod's network; only for sandboxes.
    pub network: Option<(u64, u64)>,
}

/// Disk usage of images (CRI `FilesystemUsage`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// Path on the filesystem.
    pub path: PathBuf,
    /// Bytes used by images.
    pub used: u64,
}

// --- Container ---

impl Container {
    /// Returns whether the container runs.
    pub fn is_running(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. })
    }
}

// --- Ids ---

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RuntimeVersion {
    /// As `status.nodeInfo.containerRuntimeVersion` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, self.version)
    }
}
