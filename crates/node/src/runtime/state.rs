//! What a runtime tells of what is there.

use std::{collections::BTreeMap, fmt, net::IpAddr, path::PathBuf};

use k8s_openapi::jiff::Timestamp;

use crate::PodIdentity;

/// What a sandbox is called by its runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxId(pub String);

/// What a container is called by its runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub String);

/// A runtime's name and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `docker`, `podman`, `containerd`, `cri-o`: what stands before `://` in ids of containers.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Whether a runtime can run pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Why it cannot; empty if it can.
    pub problems: Vec<String>,
    /// Whether each container has its own cgroup driver `systemd`; `cgroupfs` otherwise. Unknown for some.
    pub systemd_cgroups: bool,
}

/// Something may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of this pod.
    Pod {
        /// Its uid.
        uid: String,
    },
    /// Of any pod: look at all.
    Any,
}

/// A sandbox that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id.
    pub id: SandboxId,
    /// Which pod it is for.
    pub pod: PodIdentity,
    /// How many this pod had before.
    pub attempt: u32,
    /// How it is.
    pub state: SandboxState,
    /// When it was made.
    pub created: Timestamp,
    /// Its addresses, the first one first; none with the host's network, or while it does not run.
    pub addresses: Vec<IpAddr>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// How a sandbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Containers can be made in it.
    Ready,
    /// It has ended, or never began.
    NotReady,
}

/// A container that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its id.
    pub id: ContainerId,
    /// The sandbox it is in.
    pub sandbox: SandboxId,
    /// Which pod it is of.
    pub pod: PodIdentity,
    /// Its name in the pod.
    pub name: String,
    /// How often it was begun before.
    pub attempt: u32,
    /// The image as the pod named it.
    pub image: String,
    /// The image as it is identified for good, as statuses tell it.
    pub image_id: String,
    /// When it was made.
    pub created: Timestamp,
    /// How it is.
    pub state: ContainerState,
    /// What was given with [`super::ContainerSpec::annotations`].
    pub annotations: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Made and not begun.
    Created,
    /// Running.
    Running {
        /// Since when.
        started: Timestamp,
    },
    /// Ended.
    Exited(Exit),
    /// The runtime does not know.
    Unknown,
}

/// The end of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: i32,
    /// The signal that ended it, if that is known.
    pub signal: Option<i32>,
    /// When it began; `None` if it never did.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Timestamp,
    /// In a word: `Completed`, `Error`, `OOMKilled`, `ContainerCannotRun`, `StartError`.
    pub reason: String,
    /// What the runtime says of it.
    pub message: String,
}

/// An image on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// By what it is used and removed.
    pub id: String,
    /// `name:tag`
    pub tags: Vec<String>,
    /// `name@sha256:...`
    pub digests: Vec<String>,
    /// Its size in bytes.
    pub size: u64,
    /// The user its programs run as, as a number.
    pub user: Option<i64>,
    /// The same by name.
    pub user_name: Option<String>,
    /// Whether it must not be thrown away.
    pub pinned: bool,
}

/// What a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Which pod it is of.
    pub pod: PodIdentity,
    /// Its name; empty for the sandbox.
    pub name: String,
    /// Time of processors since it began, in nanoseconds.
    pub cpu_nanoseconds: u64,
    /// Memory in use, in bytes.
    pub memory: u64,
    /// The same without caches that can be dropped.
    pub memory_working_set: u64,
    /// What it wrote to its own file system, in bytes.
    pub writable_layer: u64,
    /// Processes.
    pub pids: u64,
    /// Bytes received and sent by the pod's network; with the sandbox's figures only.
    pub network: Option<(u64, u64)>,
}

/// What a file system has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// A folder on it.
    pub path: PathBuf,
    /// Bytes that images take.
    pub used: u64,
}

// --- Container ---

impl Container {
    /// Whether it runs.
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

impl fmt::Display for Version {
    /// As `status.nodeInfo.containerRuntimeVersion` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, self.version)
    }
}
