//! Flags and examples of `k3 start`.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use clap::{ArgAction, Args};
use k3_apiserver::{Subnet, service_range};
use k3_node::agent::{EvictionThreshold, parse_node_name};

use super::{
    access::AccessFlags, audit::AuditFlags, encryption::EncryptionFlags, limits::LimitFlags,
    storage::StorageFlags,
};
use crate::{
    certificates::SubjectAltName, databases::DatabaseFlags, duration, log::LogFlags, server::SERVICE_RANGE,
};

const EXAMPLES: &str = "\
Examples:
  k3 start
      serves https://127.0.0.1:6443, stores everything in the data directory, and prints the line
      `export KUBECONFIG=...` for kubectl

  k3 start --storage memory --data-dir \"$(mktemp -d)\" --secure-port 0 --kubeconfig-out test.kubeconfig
      a server for a test: a free port, data in memory, a kubeconfig in test.kubeconfig

  k3 start --storage etcd --etcd-servers http://10.0.0.1:2379,http://10.0.0.2:2379 --bind 0.0.0.0
      stores objects in an etcd, which several servers may share, and serves other machines

  k3 start --storage mysql
      stores objects in the MySQL of this machine; if none runs, it is started with Docker or Podman

SIGINT (Ctrl-C), SIGTERM and SIGQUIT stop the server: it closes watches, waits some seconds for requests to
finish, and exits with 0. A second signal stops it immediately.

Exit codes: 0 success, 1 failure, 2 usage error.";

/// Start a Kubernetes control plane: API server, controllers, scheduler and a node.
///
/// The first start creates a certificate authority, certificates and keys in the data directory, and a kubeconfig
/// for an administrator; later starts reuse them and renew them before they expire.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StartFlags {
    #[command(flatten)]
    pub(in crate::commands) api: ApiFlags,

    #[command(flatten)]
    pub(in crate::commands) databases: DatabaseFlags,

    #[command(flatten)]
    pub(super) parts: ComponentFlags,

    /// Do not run a node in this process
    #[arg(long, help_heading = "Node")]
    pub(in crate::commands) no_node: bool,

    #[command(flatten)]
    pub(in crate::commands) node: NodeFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ApiFlags {
    /// Data directory: certificates, keys, the admin's kubeconfig, and the objects with
    /// `--storage file` [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    pub(in crate::commands) data_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(in crate::commands) log: LogFlags,

    #[command(flatten)]
    pub(in crate::commands) storage: StorageFlags,

    #[command(flatten)]
    pub(super) network: NetworkFlags,

    #[command(flatten)]
    pub(super) access: AccessFlags,

    #[command(flatten)]
    pub(super) limits: LimitFlags,

    #[command(flatten)]
    pub(super) audit: AuditFlags,

    #[command(flatten)]
    pub(super) encryption: EncryptionFlags,

    #[command(flatten)]
    _web: WebFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses and names")]
pub(crate) struct NetworkFlags {
    /// Address to listen on; 0.0.0.0 or :: for all of this machine. With a loopback address and a node in this process
    /// the server also listens on --advertise-address, because pods cannot reach a loopback address; --no-node prevents
    /// that
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(super) bind: IpAddr,

    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(super) secure_port: u16,

    /// Port on 127.0.0.1 to listen on without TLS, for local programs that do not support it; 0 for none. Requests need
    /// a token as elsewhere
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(super) insecure_port: u16,

    /// Address at which pods and other machines reach this server; it becomes the endpoint of the
    /// service `kubernetes` [default: that of --bind, or of the outbound network interface if
    /// --bind is unspecified or a loopback address]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) advertise_address: Option<IpAddr>,

    /// Additional DNS name or address for the serving certificate; may be repeated or comma-separated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) tls_san: Vec<SubjectAltName>,

    /// Service cluster IP range. It cannot be changed once services exist
    #[arg(long, value_name = "CIDR", default_value = SERVICE_RANGE, value_parser = service_range)]
    pub(super) service_cluster_ip_range: Subnet,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Web console (not implemented yet)")]
struct WebFlags {
    /// Port of the console; no effect yet
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    web_port: u16,

    /// Whether the console allows cross-origin requests; no effect yet
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = false,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    web_cors: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Controllers and simulation")]
pub(crate) struct ComponentFlags {
    /// Controllers to run, and `scheduler`, comma-separated; '*' is all that are on by default, -NAME excludes one,
    /// '' is none. `k3 controllers` lists what runs
    #[arg(long, value_name = "LIST", default_value = "*")]
    pub(super) controllers: String,

    /// Number of simulated nodes: their pods run and terminate without containers
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub(super) simulated_nodes: u32,

    /// Rules for simulated nodes and pods: start times, failures, crash loops [default: pods run at once and forever]
    #[arg(long, value_name = "FILE", requires = "simulated_nodes")]
    pub(super) simulation_rules: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Node")]
pub(crate) struct NodeFlags {
    /// Name of the node: lower case letters, digits, '-' and '.' [default: the host name]
    #[arg(long, value_name = "NAME", value_parser = parse_node_name)]
    pub(super) node_name: Option<String>,

    #[command(flatten)]
    pub(in crate::commands) runtime: RuntimeFlags,

    /// Port of the node's API, for logs, exec and metrics; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    pub(super) node_port: u16,

    /// Directory of static pods, one YAML or JSON file each
    #[arg(long, value_name = "DIR")]
    pub(super) pod_manifest_path: Option<PathBuf>,

    /// Timeout for starting a container, including the image pull
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse_whole_seconds)]
    pub(super) container_start_limit: Duration,

    /// Timeout for stopping a container, beyond the grace period of its pod
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_whole_seconds)]
    pub(super) container_stop_limit: Duration,

    /// Whether containers without a seccomp profile get the default profile of the container runtime; false runs them
    /// unconfined
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, default_value_t = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub(super) seccomp_default: bool,

    /// Eviction thresholds, comma-separated: below them pods are evicted and no new ones are admitted
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "memory.available<100Mi,nodefs.available<10%,imagefs.available<15%,nodefs.inodesFree<5%,imagefs.inodesFree<5%"
    )]
    pub(super) eviction_hard: Vec<EvictionThreshold>,

    /// Disk usage in percent above which unused images are removed; 100 keeps them all
    #[arg(long, value_name = "PERCENT", default_value_t = 85, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) image_gc_high_threshold: u8,
}

/// The container runtime of pods and databases.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Container runtime")]
pub(crate) struct RuntimeFlags {
    /// Container runtime: docker, podman, containerd or cri-o [default: the first of these that answers]
    #[arg(long, value_name = "RUNTIME", value_parser = ["docker", "podman", "containerd", "cri-o"])]
    pub(in crate::commands) runtime: Option<String>,

    /// Socket of the container runtime, a path or `unix://PATH` [default: the usual path]
    #[arg(long, value_name = "SOCKET", requires = "runtime")]
    pub(in crate::commands) runtime_endpoint: Option<String>,
}
