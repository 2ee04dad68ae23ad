//! Configuration of sandboxes and containers that runtimes create.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use super::ContainerId;
use crate::PodIdentity;

/// Labels of sandboxes and containers that identify them. `crictl` knows the `io.kubernetes.*` ones.
pub mod labels {
    /// Pod name.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Pod namespace.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Pod UID.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Container name in the pod.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Name of the node that owns the container.
    pub const NODE: &str = "k3.io/node";
    /// UID of the node's cluster.
    pub const CLUSTER: &str = "k3.io/cluster";
    /// Restart count of the container.
    pub const ATTEMPT: &str = "k3.io/attempt";
}

/// Configuration of a pod sandbox, which the containers of a pod share (CRI `PodSandboxConfig`).
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    /// Pod of the sandbox.
    pub pod: PodIdentity,
    /// Number of earlier sandboxes of the pod.
    pub attempt: u32,
    /// Hostname. Empty with the host network.
    pub hostname: String,
    /// DNS configuration.
    pub dns: Option<DnsSpec>,
    /// Host ports.
    pub ports: Vec<PortMapping>,
    /// Additional lines of `/etc/hosts`, for Docker and Podman, which write that file themselves; other runtimes get it as a mount.
    pub hosts: Vec<HostEntry>,
    /// Network namespace.
    pub network: NamespaceMode,
    /// PID namespace.
    pub process: NamespaceMode,
    /// IPC namespace.
    pub ipc: NamespaceMode,
    /// User namespace; [`NamespaceMode::Node`] unless `hostUsers` is false.
    pub users: NamespaceMode,
    /// Sysctls.
    pub sysctls: BTreeMap<String, String>,
    /// Parent cgroup of the containers, if the agent manages one.
    pub cgroup_parent: Option<String>,
    /// Directory of container logs, for runtimes that write log files.
    pub log_directory: PathBuf,
    /// Handler of the `RuntimeClass`; empty for the default runtime.
    pub handler: String,
    /// Pod labels, for external tools.
    pub labels: BTreeMap<String, String>,
    /// Pod annotations, for external tools.
    pub annotations: BTreeMap<String, String>,
    /// Security context of the sandbox.
    pub security: ContainerSecurity,
}

/// Scope of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceMode {
    /// Shared by the pod.
    #[default]
    Pod,
    /// One per container.
    Container,
    /// The host's.
    Node,
}

/// DNS configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsSpec {
    /// Name server addresses.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Resolver options.
    pub options: Vec<String>,
}

/// A host port that is forwarded to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    /// Protocol.
    pub protocol: Protocol,
    /// Port in the pod.
    pub container_port: u16,
    /// Port on the host.
    pub host_port: u16,
    /// Host address; all addresses if `None`.
    pub host_ip: Option<IpAddr>,
}

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP
    #[default]
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

/// A line of `/etc/hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// IP address.
    pub ip: String,
    /// Hostnames.
    pub names: Vec<String>,
}

/// Configuration of a container (CRI `ContainerConfig`).
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec {
    /// Name in the pod.
    pub name: String,
    /// Restart count.
    pub attempt: u32,
    /// Image reference as returned by [`super::Runtime::pull_image`], or [`super::Image::id`].
    pub image: String,
    /// Image as the pod spec names it.
    pub user_image: String,
    /// Entrypoint; the image's if empty.
    pub command: Vec<String>,
    /// Arguments; the image's if empty and `command` is empty.
    pub args: Vec<String>,
    /// Working directory; the image's if empty.
    pub working_dir: String,
    /// Environment, in order.
    pub env: Vec<(String, String)>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Host devices.
    pub devices: Vec<Device>,
    /// Whether stdin can be attached.
    pub stdin: bool,
    /// Whether stdin closes after the first attached client.
    pub stdin_once: bool,
    /// Whether the container has a terminal.
    pub tty: bool,
    /// Resource limits.
    pub resources: ContainerResources,
    /// Security context.
    pub security: ContainerSecurity,
    /// Stop signal; the image's if empty.
    pub stop_signal: String,
    /// Container whose PID namespace it joins, if the pod does not share one (ephemeral containers with a target).
    pub process_target: Option<ContainerId>,
    /// Labels in addition to [`labels`], which every implementation sets.
    pub labels: BTreeMap<String, String>,
    /// Annotations that the agent reads back: hash of the container spec, grace period, termination message path.
    pub annotations: BTreeMap<String, String>,
}

/// A mount of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Source.
    pub source: MountSource,
    /// Path in the container.
    pub target: String,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Mount propagation.
    pub propagation: MountPropagation,
    /// Whether submounts are read-only, too.
    pub recursive_read_only: bool,
}

/// Source of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A file or directory of the host.
    Host(PathBuf),
    /// An image volume.
    Image {
        /// Image, as [`ContainerSpec::image`].
        image: String,
        /// Directory in the image; the whole image if empty.
        sub_path: String,
    },
}

/// Mount propagation between host and container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountPropagation {
    /// No propagation.
    #[default]
    Private,
    /// The container sees later mounts of the host.
    HostToContainer,
    /// Host and container see each other's later mounts.
    Bidirectional,
}

/// A host device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Path on the host.
    pub host: PathBuf,
    /// Path in the container.
    pub container: PathBuf,
    /// Any of `r`, `w` and `m`.
    pub permissions: String,
}

/// Resources of a container (CRI `LinuxContainerResources`). `None`: no limit, or the runtime's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerResources {
    /// CPU weight in cgroup v1 shares (1024 is one CPU).
    pub cpu_shares: Option<u64>,
    /// CPU time per period, in microseconds.
    pub cpu_quota: Option<i64>,
    /// CFS period, in microseconds.
    pub cpu_period: Option<u64>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// OOM score adjustment.
    pub oom_score_adj: Option<i64>,
    /// PID limit.
    pub pids: Option<u64>,
    /// Huge page limits: page size (`2MB`) and bytes.
    pub huge_pages: BTreeMap<String, u64>,
    /// Other cgroup v2 settings by file name, such as `memory.min`.
    pub unified: BTreeMap<String, String>,
}

/// User and groups of the processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessUser {
    /// UID.
    pub user: Option<i64>,
    /// User name, if the image sets one and the UID is unknown.
    pub user_name: Option<String>,
    /// GID.
    pub group: Option<i64>,
    /// Supplemental groups.
    pub groups: Vec<i64>,
    /// `supplementalGroupsPolicy: Strict`: without the groups that the image gives the user.
    pub strict_groups: bool,
}

/// Security context of a container or sandbox (CRI `LinuxContainerSecurityContext`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSecurity {
    /// User and groups.
    pub identity: ProcessUser,
    /// Whether the container is privileged.
    pub privileged: bool,
    /// Capabilities added to or dropped from the default ones.
    pub capabilities: Capabilities,
    /// Whether the root filesystem is read-only.
    pub read_only_root: bool,
    /// Sets `no_new_privs`.
    pub no_new_privileges: bool,
    /// Seccomp profile.
    pub seccomp: SecurityProfile,
    /// `AppArmor` profile.
    pub apparmor: SecurityProfile,
    /// `SELinux` user, role, type, level.
    pub selinux: Option<[String; 4]>,
    /// Masked paths of `/proc` and `/sys`; the runtime's default if `None`.
    pub masked_paths: Option<Vec<String>>,
    /// Read-only paths of `/proc`; the runtime's default if `None`.
    pub readonly_paths: Option<Vec<String>>,
}

/// Default masked paths.
pub const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

/// Default read-only paths.
pub const READ_ONLY_PATHS: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Linux capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Without `CAP_` prefix; `ALL` is all.
    pub add: Vec<String>,
    /// Like `add`.
    pub drop: Vec<String>,
}

/// Seccomp or `AppArmor` profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecurityProfile {
    /// The runtime's default profile.
    #[default]
    RuntimeDefault,
    /// No profile.
    Unconfined,
    /// A local profile: a file for seccomp, a name for `AppArmor`.
    Localhost(String),
}

/// Registry credentials of an image pull (CRI `AuthConfig`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PullSecret {
    /// Registry server.
    pub server: String,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Identity token, instead of user name and password.
    pub identity_token: String,
    /// Registry token.
    pub registry_token: String,
}

// --- PullSecret ---

impl std::fmt::Debug for PullSecret {
    /// Omits the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PullSecret")
            .field("server", &self.server)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl PortMapping {
    /// Whether a host port is set.
    pub fn is_mapped(&self) -> bool {
        self.host_port != 0
    }
}
