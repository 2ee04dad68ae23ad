//! Settings of a control plane.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use k3_apiserver::{AuditConfig, Authentication, Limits, PodAccounts, Subnet, service_range};
use k3_node::agent::EvictionThreshold;
use k3_storage::backend::StorageConfig;
use kubecontroller::manager;

use super::EncryptionSettings;
use crate::{
    certificates::{ServerCertificates, SubjectAltName},
    controller_manager::ComponentSelection,
};

/// Default issuer of service account tokens.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// Default service cluster IP range.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";

/// Settings of a control plane.
pub(crate) struct ControlPlaneSettings {
    /// Data directory: certificates, keys, the admin's kubeconfig. Created if missing.
    pub(crate) data_dir: PathBuf,
    pub(crate) storage: Box<dyn StorageConfig>,
    /// How long to wait for an unavailable store.
    pub(crate) storage_wait: Duration,
    /// Source of certificates and keys.
    pub(crate) keys: KeySource,
    /// The address to listen on.
    pub(crate) bind: IpAddr,
    /// The port to listen on; 0 picks a free one.
    pub(crate) port: u16,
    /// A port on 127.0.0.1 to listen on without TLS.
    pub(crate) plain_port: Option<u16>,
    /// Advertised address; detected if unset.
    pub(crate) advertise: Option<IpAddr>,
    /// Whether the server is published in the cluster.
    pub(crate) audience: ServerVisibility,
    /// Further names for the serving certificate.
    pub(crate) names: Vec<SubjectAltName>,
    pub(crate) service_range: Subnet,
    /// Authentication; the verifier of client certificates is added at start.
    pub(crate) authentication: Authentication,
    /// Issuer of service account tokens.
    pub(crate) issuer: String,
    /// Signing key of these tokens, PKCS#8 DER; the key of the data directory if unset.
    pub(crate) signing_key: Option<Vec<u8>>,
    /// Whether PUT may change the status as well.
    pub(crate) unrestricted_update: bool,
    /// Whether OwnerReferencesPermissionEnforcement is enabled.
    pub(crate) guard_owners: bool,
    /// Requirements on the service accounts of pods.
    pub(crate) pod_accounts: PodAccounts,
    pub(crate) limits: Limits,
    /// Audit log.
    pub(crate) audit: Option<AuditConfig>,
    /// Encryption at rest.
    pub(crate) encryption: Option<EncryptionSettings>,
    /// Controllers, scheduler and simulated nodes that run beside the server.
    pub(crate) components: ComponentSelection,
    /// Configuration of the controller manager. Leader election is disabled unless the store is shared.
    pub(crate) manager_config: manager::Config,
    /// Whether there are real nodes, here or elsewhere: they have usage metrics and local volumes.
    pub(crate) has_nodes: bool,
    /// The node in this process.
    pub(crate) node: Option<NodeSettings>,
    /// Another file for the admin's kubeconfig.
    pub(crate) kubeconfig_out: Option<PathBuf>,
}

/// Where a server is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerVisibility {
    /// The whole cluster: it is an endpoint of the service `kubernetes`.
    Cluster,
    /// Only components in the same process, and pods of a node in it.
    Process,
}

/// Source of the certificates and keys of a server.
#[derive(Default)]
pub(crate) enum KeySource {
    /// The directory `tls` of the data directory; created or renewed as needed.
    #[default]
    DataDir,
    /// Generated at start and never stored.
    Generated,
    Provided(Box<ServerCertificates>),
}

/// Settings of a node.
pub(crate) struct NodeSettings {
    pub(crate) name: String,
    /// Container runtime; the first one found if unset.
    pub(crate) runtime: Option<String>,
    pub(crate) runtime_endpoint: Option<String>,
    /// Port of the node's API; 0 picks a free one.
    pub(crate) port: u16,
    /// Directory of static pods.
    pub(crate) static_pods: Option<PathBuf>,
    pub(crate) start_limit: Duration,
    /// How long stopping a container may take beyond the grace period of its pod.
    pub(crate) stop_limit: Duration,
    /// Whether containers without a seccomp profile get the runtime's default profile.
    pub(crate) seccomp_default: bool,
    /// Eviction thresholds.
    pub(crate) eviction: Vec<EvictionThreshold>,
    /// Disk usage in percent from which unused images are removed.
    pub(crate) images_high: u8,
}

// --- ControlPlaneSettings ---

impl ControlPlaneSettings {
    /// Only an API server, on a free port of the loopback address.
    pub(crate) fn new(data_dir: PathBuf, storage: Box<dyn StorageConfig>) -> Self {
        let mut manager_config = manager::Config::default();
        manager_config.leader.elect = true;
        ControlPlaneSettings {
            data_dir,
            storage,
            storage_wait: Duration::ZERO,
            keys: KeySource::DataDir,
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            plain_port: None,
            advertise: None,
            audience: ServerVisibility::Cluster,
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
            manager_config,
            has_nodes: false,
            node: None,
            kubeconfig_out: None,
        }
    }
}
