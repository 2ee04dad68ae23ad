//! What is asked of a runtime.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use super::ContainerId;
use crate::PodIdentity;

/// The labels of sandboxes and containers, by which they are found again. The names are those that `crictl` and its kin know.
pub mod labels {
    /// The name of the pod.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// The namespace of the pod.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// The uid of the pod.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// The name of the container in its pod.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// The node that owns it.
    pub const NODE: &str = "k3.io/node";
    /// The uid of the cluster of that node.
    pub const CLUSTER: &str = "k3.io/cluster";
    /// How often the container was begun before, as a number.
    pub const ATTEMPT: &str = "k3.io/attempt";
}

/// A sandbox to be made: what the containers of a pod share.
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    /// Which pod it is for.
    pub pod: PodIdentity,
    /// How many sandboxes this pod had before.
    pub attempt: u32,
    /// Its host name. Empty with the host's network.
    pub hostname: String,
    /// Where its names are resolved.
    pub dns: Option<DnsSpec>,
    /// Ports of this machine that lead into the pod.
    pub ports: Vec<PortMapping>,
    /// More lines of `/etc/hosts`; an engine that writes that file itself is told of them, others have it mounted.
    pub hosts: Vec<HostEntry>,
    /// Whose network, processes and IPC it has.
    pub network: NamespaceMode,
    /// Whether containers see each other's processes.
    pub process: NamespaceMode,
    /// Whether containers share IPC.
    pub ipc: NamespaceMode,
    /// Whose users; only [`NamespaceMode::Node`] is the usual one.
    pub users: NamespaceMode,
    /// Kernel settings of the pod.
    pub sysctls: BTreeMap<String, String>,
    /// The cgroup under which the pod's containers are, if the agent keeps one.
    pub cgroup_parent: Option<String>,
    /// Where its containers' logs go, for runtimes that write them to files.
    pub log_directory: PathBuf,
    /// The handler of its `RuntimeClass`; empty for the usual one.
    pub handler: String,
    /// The labels and annotations of the pod, for who looks from outside.
    pub labels: BTreeMap<String, String>,
    /// See `labels`.
    pub annotations: BTreeMap<String, String>,
    /// Security of the sandbox itself.
    pub security: Security,
}

/// Whose namespace is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceMode {
    /// One for the pod.
    #[default]
    Pod,
    /// One for each container.
    Container,
    /// That of the machine.
    Node,
}

/// Where names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsSpec {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Suffixes that are tried.
    pub searches: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

/// A port of this machine that leads into a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortMapping {
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// The port in the pod.
    pub container_port: u16,
    /// The port of the machine.
    pub host_port: u16,
    /// The address of the machine; all of them if none is given.
    pub host_ip: Option<IpAddr>,
}

/// A protocol with ports.
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
    /// The address.
    pub ip: String,
    /// Its names.
    pub names: Vec<String>,
}

/// A container to be made.
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec {
    /// Its name in the pod.
    pub name: String,
    /// How often it was begun before.
    pub attempt: u32,
    /// The image as [`super::Runtime::pull_image`] or [`super::Image::id`] names it.
    pub image: String,
    /// The image as the pod names it.
    pub user_image: String,
    /// Its program; the image's if empty.
    pub command: Vec<String>,
    /// The arguments; the image's if empty and there is no command either.
    pub args: Vec<String>,
    /// The folder it begins in; the image's if empty.
    pub working_dir: String,
    /// Its environment, in order.
    pub env: Vec<(String, String)>,
    /// What is mounted where.
    pub mounts: Vec<Mount>,
    /// Devices of the machine.
    pub devices: Vec<Device>,
    /// Whether its standard input can be attached to.
    pub stdin: bool,
    /// Whether its standard input ends with the first client that attached.
    pub stdin_once: bool,
    /// Whether it has a terminal.
    pub tty: bool,
    /// What it may use.
    pub resources: Resources,
    /// Who it is and what it may do.
    pub security: Security,
    /// The signal that asks it to end; the image's if empty.
    pub stop_signal: String,
    /// The container whose processes it sees, where the pod has no process namespace of its own.
    pub process_target: Option<ContainerId>,
    /// Labels beyond those of [`labels`], which every implementation sets itself.
    pub labels: BTreeMap<String, String>,
    /// What the agent wants to find again: the hash of the container's spec, its grace time, its message path.
    pub annotations: BTreeMap<String, String>,
}

/// Something mounted into a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// What.
    pub source: MountSource,
    /// Where, in the container.
    pub target: String,
    /// Whether it can only be read.
    pub read_only: bool,
    /// Whether mounts made later on one side are seen on the other.
    pub propagation: Propagation,
    /// Whether what is mounted below is read-only, too.
    pub recursive_read_only: bool,
}

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// A file or folder of this machine.
    Host(PathBuf),
    /// The files of an image, or a folder in it.
    Image {
        /// As [`ContainerSpec::image`].
        image: String,
        /// A folder in it; all of it if empty.
        sub_path: String,
    },
}

/// Whether mounts made later on one side are seen on the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Neither sees the other's.
    #[default]
    Private,
    /// The container sees those of the machine.
    HostToContainer,
    /// Both see all.
    Bidirectional,
}

/// A device of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its path on the machine.
    pub host: PathBuf,
    /// Its path in the container.
    pub container: PathBuf,
    /// Any of `r`, `w` and `m`.
    pub permissions: String,
}

/// What a container may use. `None` is no limit, or the runtime's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Weight against others, as cgroup v1 counts it (1024 is one CPU).
    pub cpu_shares: Option<u64>,
    /// Time in each period, in microseconds.
    pub cpu_quota: Option<i64>,
    /// The period, in microseconds.
    pub cpu_period: Option<u64>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Which processes go first when memory is short.
    pub oom_score_adj: Option<i64>,
    /// Processes in the container.
    pub pids: Option<u64>,
    /// Huge pages: size (`2MB`) and bytes.
    pub huge_pages: BTreeMap<String, u64>,
    /// Memory that is not reclaimed and the like, by the names of cgroup v2.
    pub unified: BTreeMap<String, String>,
}

/// Who a process is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its user, as a number.
    pub user: Option<i64>,
    /// Its user by name, if the image says so and no number is known.
    pub user_name: Option<String>,
    /// Its group.
    pub group: Option<i64>,
    /// More groups.
    pub groups: Vec<i64>,
    /// Whether it has these groups only, and not those the image gives its user.
    pub strict_groups: bool,
}

/// What a container may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Who its processes are.
    pub identity: Identity,
    /// Everything.
    pub privileged: bool,
    /// Rights of root beyond or below the usual ones.
    pub capabilities: Capabilities,
    /// Whether its root folder can only be read.
    pub read_only_root: bool,
    /// Whether programs may not get more rights than who runs them.
    pub no_new_privileges: bool,
    /// Which system calls.
    pub seccomp: Confinement,
    /// Which profile of `AppArmor`.
    pub apparmor: Confinement,
    /// `SELinux`: user, role, type, level.
    pub selinux: Option<[String; 4]>,
    /// Paths of `/proc` that are hidden; the runtime's own if `None`.
    pub masked_paths: Option<Vec<String>>,
    /// Paths of `/proc` that are read-only; the runtime's own if `None`.
    pub readonly_paths: Option<Vec<String>>,
}

/// What no container sees of `/proc` and `/sys` that is not asked to.
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

/// What no container changes of `/proc` that is not asked to.
pub const READ_ONLY_PATHS: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Rights of root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Without `CAP_`; `ALL` is all.
    pub add: Vec<String>,
    /// See `add`.
    pub drop: Vec<String>,
}

/// A profile that confines a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Confinement {
    /// The one of the runtime.
    #[default]
    Default,
    /// None.
    Unconfined,
    /// One of this machine: a file for seccomp, a name for `AppArmor`.
    Local(String),
}

/// How a registry knows us.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PullSecret {
    /// The registry it is for.
    pub server: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
    /// A token instead of both.
    pub identity_token: String,
    /// A token of the registry itself.
    pub registry_token: String,
}

// --- PullSecret ---

impl std::fmt::Debug for PullSecret {
    /// Without what is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PullSecret")
            .field("server", &self.server)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl PortMapping {
    /// Whether it leads into a pod at all.
    pub fn is_mapped(&self) -> bool {
        self.host_port != 0
    }
}
