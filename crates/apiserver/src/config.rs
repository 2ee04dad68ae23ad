//! Configuration of the API server.

use std::{fmt, net::IpAddr, time::Duration};

use k3_api::name::Subnet;

use crate::{audit::AuditConfig, authn::Authentication, endpoint_reconciler::EndpointReconcilerType};

/// The settings of a server.
#[derive(Debug)]
pub struct Config {
    /// How users are known.
    pub authentication: Authentication,
    /// Where services get their addresses from.
    pub service_range: Subnet,
    /// Who service-account tokens are issued by: a URL.
    pub issuer: String,
    /// The key service-account tokens are signed with: ECDSA P-256, PKCS#8 DER.
    pub signing_key: Vec<u8>,
    /// Whether a PUT of an object may change its status too, which otherwise has a path of its own. Off: with it a client that
    /// writes back what it read some time ago undoes the work of controllers.
    pub unrestricted_update: bool,
    /// Where clients in the cluster reach this server.
    pub advertise: (IpAddr, u16),
    /// How this server is advertised in the endpoints of the service `kubernetes`.
    pub endpoint_reconciler: EndpointReconcilerType,
    /// Whether who names an owner must be allowed to delete the dependent, and to set finalizers on an owner that is held up:
    /// the plugin `OwnerReferencesPermissionEnforcement`.
    pub guard_owners: bool,
    /// What is asked of the service accounts of pods: the plugin `ServiceAccount`.
    pub pod_accounts: PodAccounts,
    /// How much is done at once, and for how long.
    pub limits: Limits,
    /// Which requests are written down, and where; `None`: none are.
    pub audit: Option<AuditConfig>,
    /// How the server shows nodes who it is; `None`: no node is ever called, and what only nodes know is answered so.
    pub nodes: Option<NodeClient>,
    /// Whether what nodes and pods use is shown as `metrics.k8s.io`. Off: a server without nodes has nothing to show. It takes
    /// the place of a metrics server; do not install another one.
    pub usage: bool,
}

/// What is asked of the service accounts of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodAccounts {
    /// A pod acts for a service account that is there, and gets its token.
    #[default]
    Required,
    /// The `ServiceAccount` plugin is off. For tests without controllers, where no service accounts are created.
    Free,
}

/// The user that the server is to nodes. It is bound to the role `system:kubelet-api-admin`, and its certificate is refused by
/// API servers: who makes the server call itself gains nothing.
pub const NODE_CLIENT_USER: &str = "kube-apiserver-kubelet-client";

/// Who the server is to nodes: a client with a certificate of the cluster's authority for the user [`NODE_CLIENT_USER`].
#[derive(Clone)]
pub struct NodeClient {
    /// Its certificate, and those between it and the authority: PEM.
    pub certificate: Vec<u8>,
    /// Its key: PEM.
    pub key: Vec<u8>,
    /// The authorities that the certificates of nodes come from: PEM.
    pub authorities: Vec<u8>,
}

// --- NodeClient ---

impl fmt::Debug for NodeClient {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeClient").finish_non_exhaustive()
    }
}

/// Limits on concurrency and time. Requests beyond them are rejected.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many reads are served at once. Default: 400; 0 is no limit.
    pub reads: usize,
    /// How many writes are served at once. Default: 200; 0 is no limit.
    pub writes: usize,
    /// How many watches a user may have open. Default: 20,000; 0 is no limit.
    pub watches_per_user: usize,
    /// How long a request may take that is not a watch or the like. Default: a minute.
    pub request_time: Duration,
}

// --- Limits ---

impl Default for Limits {
    fn default() -> Self {
        Limits {
            reads: 400,
            writes: 200,
            watches_per_user: 20_000,
            request_time: Duration::from_mins(1),
        }
    }
}
