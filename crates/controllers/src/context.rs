//! The context that controllers get.

use std::{fmt, net::IpAddr, sync::Arc};

use k3_pki::{CertificateRequest, Template};
use k3_workloads::{Pod, pod_informer, pods_by_node};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::Controller,
    events::EventRecorder,
    informer::{Informer, InformerScope, SharedInformerFactory},
    manager::Runnable,
    metrics::Metrics,
    object::Object,
    resource::Resource,
    store::Index,
    writer::ApiWriter,
};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a controller gets: a client with its own rights, shared informers, events, clock and metrics.
// upstream: cmd/kube-controller-manager/app/controllermanager.go ControllerContext
#[derive(Clone)]
pub struct ControllerContext {
    /// Makes requests with the rights of the controller's service account.
    pub writer: ApiWriter,
    /// The informers, shared by all controllers.
    pub informers: SharedInformerFactory,
    /// Records events.
    pub recorder: EventRecorder,
    /// The clock, which tests can control.
    pub clock: Clock,
    /// Registry for its metrics.
    pub metrics: Metrics,
    /// Cluster-wide configuration.
    pub cluster: Arc<ClusterConfig>,
}

/// Cluster-wide configuration of controllers.
#[derive(Clone, Debug, Default)]
pub struct ClusterConfig {
    /// CA certificates of the API server in PEM, which pods need to trust it.
    pub authority: CaBundle,
    /// CIDRs for pods and nodes.
    pub node_networks: NodeNetworks,
    /// The directory for volumes of the provisioner `k3.io/local-path` on each node. Without it the provisioner is disabled.
    pub local_volumes: Option<String>,
    /// Signs approved certificate requests. Without it, none are signed.
    pub certificates: Option<CertificateSigner>,
    /// Signs tokens of service account token Secrets. Without it, such Secrets stay empty.
    pub tokens: Option<TokenSigner>,
    /// The names and addresses of the API server, which nodes may not serve under.
    pub server: ServerIdentity,
}

/// What the API server is known by. Where several servers share a store, it is that of the one whose controllers run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The DNS names of its serving certificate, which may have wildcards.
    pub hosts: Vec<String>,
    /// The host name of its machine, which nodes on that machine may have as their name.
    pub host_name: Option<String>,
    /// The addresses of its serving certificate that are not addresses of its machine, such as that of a load balancer.
    pub foreign_addresses: Vec<IpAddr>,
    /// The address that it advertises. Nodes on its machine have the same.
    pub advertise: Option<IpAddr>,
    /// The networks of services that it was started with, such as `10.96.0.0/12`; objects of kind `ServiceCIDR` may add others.
    pub service_networks: Vec<String>,
    /// The name of the node in its process.
    pub node: Option<String>,
}

/// Certificates of an authority, in PEM. They may be others while controllers run; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct CaBundle(Arc<RwLock<Arc<str>>>);

/// Signs tokens with the key of service accounts. Clones are the same.
#[derive(Clone)]
pub struct TokenSigner {
    sign: Arc<dyn Fn(&Value) -> String + Send + Sync>,
}

/// Signs certificates with the cluster's CA. Clones share it.
#[derive(Clone)]
pub struct CertificateSigner {
    sign: Arc<SignCertificate>,
}

type SignCertificate = dyn Fn(&CertificateOrder) -> Result<String, SignCertificateError> + Send + Sync;

/// A certificate was not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignCertificateError {
    /// The system has no random bytes for a serial number.
    #[error("no random bytes")]
    NoRandomBytes,
    /// The authority cannot issue it.
    #[error(transparent)]
    Issue(#[from] k3_pki::IssueError),
}

/// A certificate to sign: with the subject and the names of the request, and nothing else of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateOrder {
    /// The request, which was read and verified.
    pub request: CertificateRequest,
    /// Key usages in API notation, such as `client auth`.
    pub usages: Vec<String>,
    /// When it begins to be valid.
    pub from: Timestamp,
    /// When it ends to be valid, at the latest: it cannot outlive the authority.
    pub to: Timestamp,
}

/// The networks that nodes get for their pods.
#[derive(Clone, Debug, Default)]
pub struct NodeNetworks {
    /// What they are cut from, such as `10.244.0.0/16`: one, or one of each family. Without any, nodes get none.
    pub pods: Vec<String>,
    /// The networks of services, which no pod may be in.
    pub services: Vec<String>,
    /// The size of a node's network in IPv4, as the length of its prefix; 24 if not said.
    pub block_v4: Option<u8>,
    /// The same in IPv6; 64 if not said.
    pub block_v6: Option<u8>,
}

/// A task of a controller.
pub type Task = Box<dyn Runnable>;

// --- TokenSigner ---

impl TokenSigner {
    /// A signer, which makes a token of claims.
    pub fn new(sign: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        TokenSigner { sign: Arc::new(sign) }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        (self.sign)(claims)
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSigner")
    }
}

// --- CaBundle ---

impl CaBundle {
    /// The current certificates.
    pub fn get(&self) -> Arc<str> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the certificates. Published copies are updated on their next event.
    pub fn set(&self, pem: &str) {
        *self.0.write() = pem.into();
    }
}

impl From<String> for CaBundle {
    fn from(pem: String) -> Self {
        CaBundle(Arc::new(RwLock::new(pem.into())))
    }
}

// --- CertificateSigner ---

impl CertificateSigner {
    /// A signer, which returns the certificate in PEM.
    pub fn new(
        sign: impl Fn(&CertificateOrder) -> Result<String, SignCertificateError> + Send + Sync + 'static,
    ) -> Self {
        CertificateSigner { sign: Arc::new(sign) }
    }

    /// A signer of an authority. `random` returns unpredictable bytes.
    pub fn of_authority(
        authority: Arc<k3_pki::Authority>,
        random: impl Fn() -> Result<[u8; 16], SignCertificateError> + Send + Sync + 'static,
    ) -> Self {
        CertificateSigner::new(move |order| {
            let usages: Vec<_> = order.usages.iter().map(|usage| &**usage).collect();
            let template = Template {
                subject: order.request.subject(),
                names: order.request.names(),
                usages: &usages,
                not_before: order.from.as_second(),
                not_after: order.to.as_second(),
                serial: random()?,
            };
            Ok(authority.issue(&template, order.request.public_key())?)
        })
    }

    /// Makes a certificate, in PEM.
    ///
    /// # Errors
    /// The authority cannot issue it, or there is no serial number.
    pub fn sign(&self, order: &CertificateOrder) -> Result<String, SignCertificateError> {
        (self.sign)(order)
    }
}

impl fmt::Debug for CertificateSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateSigner")
    }
}

// --- Context ---

impl ControllerContext {
    /// The objects of a resource in the whole cluster, as far as `T` reads them. Informers are shared.
    pub fn informer<T: Object + DeserializeOwned>(&self, resource: &Resource) -> Informer<T> {
        self.informers
            .projected(&resource.api_resource(), InformerScope::default())
    }

    /// The pods.
    pub fn pods(&self) -> Informer<Pod> {
        pod_informer(&self.informers)
    }

    /// The pods of each node. Who asks for it holds [`ControllerContext::pods`] too: an index alone does not keep them coming.
    pub fn pods_by_node(&self) -> Index<Pod> {
        pods_by_node(self.pods().store())
    }

    /// The pods that use each claim, by the claim's key.
    pub fn pods_by_claim(&self) -> Index<Pod> {
        let pods = self.pods();
        pods.store().shared_index("claim", |pod| {
            let namespace = &pod.metadata.namespace;
            let claims = pod.claims();
            claims
                .map(|claim| Key::new(namespace, &claim).as_str().to_owned())
                .collect()
        })
    }

    /// A controller builder with metrics and clock.
    pub fn controller(&self, name: &str) -> Controller {
        Controller::new(name).metrics(&self.metrics).clock(&self.clock)
    }
}
