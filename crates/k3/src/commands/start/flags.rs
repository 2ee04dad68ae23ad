//! What can be told to `k3 start`, and the texts that teach it.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use clap::{ArgAction, Args, ValueEnum};
use k3_apiserver::{Subnet, service_range};

use super::storage::StorageFlags;
use crate::{certificates::Name, log::LogLevel};

const EXAMPLES: &str = "\
Examples:
  k3 start
      serves https://127.0.0.1:6443, keeps everything in the data folder, and prints the line
      `export KUBECONFIG=...` after which kubectl works

  k3 start --storage memory --data-dir \"$(mktemp -d)\" --secure-port 0 --kubeconfig-out test.kubeconfig
      a server for a test: a free port, nothing kept, found through test.kubeconfig

  k3 start --storage etcd --etcd-servers http://10.0.0.1:2379,http://10.0.0.2:2379 --bind 0.0.0.0
      keeps objects in an etcd, which several servers may share, and serves other machines

The server ends on SIGINT (Ctrl-C), SIGTERM and SIGQUIT: it ends watches, waits some seconds for requests to
finish, and exits with 0. A second signal ends it at once.

Exit codes: 0 success, 1 failure, 2 a call that makes no sense.";

/// Start the server: a Kubernetes API over HTTPS.
///
/// The first start makes a certificate authority, certificates and keys in the data folder, and a kubeconfig
/// for an administrator; later starts use them again and renew them when they come near their end.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StartFlags {
    /// Folder of all that is kept: certificates, keys, the admin's kubeconfig, and the objects with
    /// `--storage file` [default: /var/lib/k3 for root, else `$XDG_DATA_HOME/k3` or `~/.local/share/k3`]
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// How much is written to standard error
    #[arg(long, value_enum, default_value_t = LogLevel::Info, value_name = "LEVEL")]
    pub(super) log_level: LogLevel,

    #[command(flatten)]
    pub(super) storage: StorageFlags,

    #[command(flatten)]
    pub(super) network: NetworkFlags,

    #[command(flatten)]
    pub(super) access: AccessFlags,

    #[command(flatten)]
    pub(super) parts: PartFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses and names")]
pub(crate) struct NetworkFlags {
    /// Address to listen on; 0.0.0.0 or :: for all of this machine
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(super) bind: IpAddr,

    /// Port to listen on; 0 takes a free one, which the kubeconfig then names
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub(super) secure_port: u16,

    /// Address under which pods and other machines reach this server; it becomes the endpoint of the
    /// service `kubernetes` [default: that of --bind, or of the network interface that leads outside if
    /// --bind is all addresses or a loopback one]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) advertise_address: Option<IpAddr>,

    /// Further DNS name or address for the serving certificate; may be repeated, or a list with commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) tls_san: Vec<Name>,

    /// Network from which services get their addresses. It cannot be changed once services exist
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/16", value_parser = service_range)]
    pub(super) service_cluster_ip_range: Subnet,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Who may use it")]
pub(crate) struct AccessFlags {
    /// Also write the admin's kubeconfig (mode 0600) to this file
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig_out: Option<PathBuf>,

    /// Users with static tokens: a file with lines `token,user,uid` or `token,user,uid,"group1,group2"`
    #[arg(long, value_name = "FILE")]
    pub(super) token_auth_file: Option<PathBuf>,

    /// Whether requests without credentials are taken, as user system:anonymous in group
    /// system:unauthenticated; if not, they are refused with 401
    #[arg(
        long,
        value_name = "BOOL",
        action = ArgAction::Set,
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(super) anonymous_auth: bool,

    /// Who service-account tokens say they are issued by: a URL
    #[arg(long, value_name = "URL", default_value = "https://kubernetes.default.svc", value_parser = issuer)]
    pub(super) service_account_issuer: String,

    /// Admission plugins to run besides those that always run; may be repeated, or a list with commas
    #[arg(long, value_enum, value_name = "PLUGIN", value_delimiter = ',')]
    pub(super) enable_admission_plugins: Vec<Plugin>,
}

/// A plugin that runs only where it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plugin {
    /// Who names an owner may delete the dependent; who lets it hold up the owner may set finalizers there
    #[value(name = "OwnerReferencesPermissionEnforcement")]
    OwnerReferencesPermissionEnforcement,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What runs beside the API server")]
pub(crate) struct PartFlags {
    /// Controllers to run, a list with commas; '*' is all, '' none. There are none yet: whatever the list
    /// says, only the API server runs
    #[arg(long, value_name = "LIST", default_value = "*")]
    pub(super) controllers: String,

    /// Do not run a node in this process. There is none yet: it is the same with and without
    #[arg(long)]
    pub(super) no_node: bool,
}

fn issuer(text: &str) -> Result<String, &'static str> {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        _ => Err("not a URL such as https://kubernetes.default.svc"),
    }
}
