//! What a control plane is told when it starts.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use k3_apiserver::{AuditConfig, Authentication, Limits, PodAccounts, Subnet, service_range};
use k3_node::agent::Threshold;
use k3_storage::StorageConfig;
use kubecontroller::manager;

use super::EncryptionSettings;
use crate::{
    certificates::{Certificates, Name},
    controller_manager::ComponentSelection,
};

/// Who issues tokens of service accounts if nobody says otherwise.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// Where services get their addresses from if nobody says otherwise.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";

/// What a control plane is told when it starts.
pub(crate) struct Settings {
    /// The directory of certificates, keys and the admin's kubeconfig. It is made if it is not there.
    pub(crate) data_dir: PathBuf,
    /// Where objects are kept.
    pub(crate) storage: StorageConfig,
    /// How long a store that does not answer is waited for.
    pub(crate) storage_wait: Duration,
    /// Where its certificates and keys come from.
    pub(crate) keys: KeySource,
    /// The address to listen on.
    pub(crate) bind: IpAddr,
    /// The port to listen on; 0 takes a free one.
    pub(crate) port: u16,
    /// A port on 127.0.0.1 to listen on without TLS.
    pub(crate) plain_port: Option<u16>,
    /// Where others reach the server; found out if it is not said.
    pub(crate) advertise: Option<IpAddr>,
    /// Whether anybody else is to know of the server.
    pub(crate) audience: Audience,
    /// Further names for the serving certificate.
    pub(crate) names: Vec<Name>,
    /// Where services get their addresses from.
    pub(crate) service_range: Subnet,
    /// How users are known. What judges certificates is added to it.
    pub(crate) authentication: Authentication,
    /// Who tokens of service accounts are issued by.
    pub(crate) issuer: String,
    /// The key that such tokens are signed with, PKCS#8 DER; that of the directory if it is not said.
    pub(crate) signing_key: Option<Vec<u8>>,
    /// Whether a PUT may change the status too.
    pub(crate) unrestricted_update: bool,
    /// Whether who names an owner must be allowed to delete the dependent.
    pub(crate) guard_owners: bool,
    /// What is asked of the service accounts of pods.
    pub(crate) pod_accounts: PodAccounts,
    /// How much is done at once.
    pub(crate) limits: Limits,
    /// Which requests are written down.
    pub(crate) audit: Option<AuditConfig>,
    /// Which objects are encrypted in the store.
    pub(crate) encryption: Option<EncryptionSettings>,
    /// The controllers, the scheduler and the simulated nodes that run beside the server.
    pub(crate) components: ComponentSelection,
    /// How they run. Whether a leader is elected also depends on the store: one that nobody shares needs none.
    pub(crate) control: manager::Config,
    /// Whether there are real nodes, here or elsewhere: what they use is shown, and volumes are made of their directories.
    pub(crate) has_nodes: bool,
    /// The node in this process.
    pub(crate) node: Option<NodeSettings>,
    /// Another file for the admin's kubeconfig.
    pub(crate) kubeconfig_out: Option<PathBuf>,
}

/// Who is to use a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Everybody: the service `kubernetes` leads to it.
    Cluster,
    /// Only what runs in the same process, and pods of a node that does.
    Process,
}

/// Where the certificates and keys of a server come from.
#[derive(Default)]
pub(crate) enum KeySource {
    /// From the directory `tls` of the data directory, made or renewed if need be.
    #[default]
    Kept,
    /// They are made, and gone with the server. Nothing waits for a disk.
    Fresh,
    /// They are these.
    Given(Box<Certificates>),
}

/// What a node is told when it starts.
pub(crate) struct NodeSettings {
    /// Its name.
    pub(crate) name: String,
    /// What runs containers; the first that answers if it is not said.
    pub(crate) runtime: Option<String>,
    /// Where that listens.
    pub(crate) runtime_endpoint: Option<String>,
    /// The port of the node's own API; 0 takes a free one.
    pub(crate) port: u16,
    /// The directory of pods that run whatever the API says.
    pub(crate) static_pods: Option<PathBuf>,
    /// How long starting a container may take.
    pub(crate) start_limit: Duration,
    /// How long stopping one may take beyond the grace of its pod.
    pub(crate) stop_limit: Duration,
    /// Whether containers that name no profile of seccomp get the runtime's.
    pub(crate) seccomp_default: bool,
    /// What must be left of the machine for pods to stay.
    pub(crate) eviction: Vec<Threshold>,
    /// Percent of the disk in use from which images are thrown away.
    pub(crate) images_high: u8,
}

// --- Settings ---

impl Settings {
    /// An API server alone, for this machine, on a free port.
    pub(crate) fn new(data_dir: PathBuf, storage: StorageConfig) -> Self {
        let mut control = manager::Config::default();
        control.leader.elect = true;
        Settings {
            data_dir,
            storage,
            storage_wait: Duration::ZERO,
            keys: KeySource::DataDir,
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            plain_port: None,
            advertise: None,
            audience: Audience::Cluster,
            names: Vec::new(),
            service_range: service_range(SERVICE_RANGE).expect("the usual range is one"),
            authentication: Authentication::default(),
            issuer: ISSUER.to_owned(),
            signing_key: None,
            unrestricted_update: false,
            guard_owners: false,
            pod_accounts: PodAccounts::default(),
            limits: Limits::default(),
            audit: None,
            encryption: None,
            components: ComponentSelection::default(),
            control,
            has_nodes: false,
            node: None,
            kubeconfig_out: None,
        }
    }
}

/// The name of a store, as flags and configuration have it.
pub(super) fn store_name(storage: &StorageConfig) -> &'static str {
    match storage {
        StorageConfig::Memory => "memory",
        StorageConfig::File(_) => "file",
        StorageConfig::Etcd(_) => "etcd",
        StorageConfig::Mysql(_) => "mysql",
    }
}

/// Whether other servers may use it at the same time.
pub(crate) fn is_shared(storage: &StorageConfig) -> bool {
    matches!(storage, StorageConfig::Etcd(_) | StorageConfig::Mysql(_))
}
