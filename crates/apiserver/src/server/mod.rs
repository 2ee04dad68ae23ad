//! The server: it starts what serves requests, and takes connections.
//!
//! ```text
//! connection    TLS, HTTP/1.1 or HTTP/2, and graceful shutdown
//! idle_timeout  closes idle connections
//! in_process    the in-process transport
//! ```

mod connection;
mod idle_timeout;
mod in_process;

use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc};

use futures_util::future::BoxFuture;
use k3_storage::{ReadError, Store};
use k3_task::Clock;
use tokio::net::TcpListener;

pub use self::in_process::{InProcessBody, InProcessTransport};
use crate::{
    Config, NodeClient, PodAccounts,
    admission::AdmissionChain,
    allocation::{RepairTask, ServiceAllocator},
    audit::Auditor,
    authn::{Authenticator, BadSigningKey, PublicKey, Signer},
    authz::Authorizer,
    cache::{StoreReflector, WatchCaches},
    custom::{self, CustomResourceConverter},
    endpoint_reconciler::{EndpointLeases, EndpointReconciler},
    metrics::Metrics,
    outgoing::{Dialer, NodeConnectionInfoGetter, WebhookClientManager},
    pipeline::{
        AcceptStage, ApiDocuments, AuditingStage, AuthenticationStage, AuthorizationStage, BodyMemory,
        DecodeStage, DispatchStage, ExtraEndpoints, HandlerChain, ImpersonationStage, InflightLimits,
        LimitStage, NonResourceEndpoints, ProcessSetting, RestStorages, SettingError, WatchLimits,
    },
    read_only_store::ReadOnlyStore,
    registry::{
        self, ComponentStatusStorage, ConnectStorage, ObjectAdmission, Registry, ReviewStorage, StoreWriter,
        TokenRequestStorage,
    },
    service_range::kubernetes_address,
    usage::ResourceMetrics,
};

/// A server that is ready to take requests.
pub struct Server {
    handler: Arc<HandlerChain>,
    extra_endpoints: Arc<ExtraEndpoints>,
    authenticator: Arc<Authenticator>,
    nodes: Arc<NodeConnectionInfoGetter>,
    /// Must not be made to dial this server.
    dialer: Arc<Dialer>,
    /// Ends with the server.
    _reflector: StoreReflector,
    _repair: RepairTask,
    _crd_controller: custom::CustomResourceDefinitionController,
    endpoint_reconciler: EndpointReconciler,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// What is stored cannot be read.
    #[error("cannot read the store: {0}")]
    Read(#[from] ReadError),
    /// The key that tokens are to be signed with cannot be used.
    #[error(transparent)]
    SigningKey(#[from] BadSigningKey),
    /// What the server is to show to nodes cannot be used.
    #[error("invalid kubelet client certificate: {0}")]
    NodeClient(String),
    /// The audit log cannot be written.
    #[error("cannot open the audit log")]
    AuditLog(#[source] io::Error),
    /// The objects a cluster is born with cannot be made.
    #[error("cannot create {what}: {why}")]
    Bootstrap {
        /// Which object.
        what: String,
        /// The cause.
        why: String,
    },
}

// --- Server ---

impl Server {
    /// Reads what is stored, and makes what every cluster has.
    // Boxed: so what goes on behind requests is compiled with this crate, not with each that starts a server.
    #[inline(never)]
    pub fn start(config: Config, store: Arc<dyn Store>) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(Self::begin(config, store))
    }

    async fn begin(mut config: Config, store: Arc<dyn Store>) -> Result<Self, StartError> {
        let clock = Clock::system();
        let metrics = Arc::new(Metrics::default());
        let auditor = config
            .audit
            .take()
            .map(|audit| Auditor::new(audit, clock.clone(), Arc::clone(&metrics)))
            .transpose()
            .map_err(StartError::AuditLog)?;
        let (caches, feed) = WatchCaches::fill(Arc::clone(&store), registry::selectable).await?;
        let writer = StoreWriter::new(Arc::clone(&store));
        let allocation = ServiceAllocator::new(
            Arc::clone(&caches),
            writer.clone(),
            clock.clone(),
            &config.service_range,
        );
        let repair = allocation.start_repair().await.map_err(ReadError::from)?;
        let authorizer = Arc::new(Authorizer::new(Arc::clone(&caches)));
        let dialer = Arc::new(dialer(&config));
        let outgoing = Arc::new(WebhookClientManager::new(
            Arc::clone(&caches),
            Arc::clone(&dialer),
        ));
        let admission = Arc::new(ObjectAdmission::new(
            admission_chain(&config, &authorizer, &outgoing, writer.clone()),
            Arc::clone(&authorizer),
            Arc::clone(&caches),
            Arc::clone(&metrics),
        ));
        let nodes =
            NodeConnectionInfoGetter::new(Arc::clone(&caches), config.nodes.as_ref(), Arc::clone(&dialer))
                .map_err(|error| StartError::NodeClient(error.to_string()))?;
        let converter = Arc::new(CustomResourceConverter::new(outgoing));
        let authenticator = Arc::new(authenticator(&mut config, &caches)?);
        let nodes = Arc::new(nodes);
        let mut registry = Registry::new(
            Arc::clone(&caches),
            writer.clone(),
            Arc::clone(&admission),
            allocation,
            converter,
            Arc::clone(&metrics),
            clock.clone(),
        );
        if config.unrestricted_update {
            registry.allow_unrestricted_update();
        }
        let registry = Arc::new(registry);
        crate::bootstrap::run(&registry, &config).await?;
        let leases = EndpointLeases::new(ReadOnlyStore::new(store), writer);
        let endpoint_reconciler = EndpointReconciler::start(Arc::clone(&registry), leases, &config).await;
        let limits = config.limits;
        let inflight = InflightLimits::new(limits.reads, limits.writes, Arc::clone(&metrics));
        let watch_limits = WatchLimits::new(limits.watches_per_user);
        let body_memory = BodyMemory::new();
        let extra_endpoints = Arc::new(ExtraEndpoints::default());
        let non_resource = NonResourceEndpoints {
            caches: Arc::clone(&caches),
            metrics: Arc::clone(&metrics),
            authenticator: Arc::clone(&authenticator),
            clock: clock.clone(),
            body_memory: body_memory.clone(),
            extra: Arc::clone(&extra_endpoints),
            documents: ApiDocuments::new(&config, caches.definitions()),
            usage: config
                .usage
                .then(|| ResourceMetrics::new(Arc::clone(&caches), Arc::clone(&nodes))),
        };
        let storages = rest_storages(
            &caches,
            &authorizer,
            &authenticator,
            &nodes,
            &admission,
            &registry,
        );
        // The stages of requests, with what each of them needs.
        let handler = HandlerChain {
            accept: AcceptStage::new(Arc::clone(&caches), Arc::clone(&metrics), limits.request_time),
            authenticate: AuthenticationStage::new(Arc::clone(&authenticator), clock.clone()),
            audit: AuditingStage::new(auditor, clock.clone()),
            limit: LimitStage::new(Arc::clone(&inflight)),
            impersonate: ImpersonationStage::new(Arc::clone(&authorizer)),
            authorize: AuthorizationStage::new(authorizer),
            decode: DecodeStage::new(caches, body_memory, watch_limits, clock),
            dispatch: DispatchStage::new(storages, inflight, non_resource),
        };
        Ok(Server {
            endpoint_reconciler,
            _crd_controller: custom::CustomResourceDefinitionController::start(registry),
            handler: Arc::new(handler),
            extra_endpoints,
            authenticator,
            nodes,
            dialer,
            _reflector: feed,
            _repair: repair,
        })
    }

    /// Has those who look for a server find another one, if there are several. To be called before connections end.
    pub async fn withdraw(&self) {
        self.endpoint_reconciler.withdraw().await;
    }

    /// Adds metrics to `/metrics`, in Prometheus text format. They are collected on request.
    pub fn add_metrics(&self, metrics: impl Fn() -> String + Send + Sync + 'static) {
        self.extra_endpoints.add_metrics(metrics);
    }

    /// Shows a document at a path that leads to nothing else, to those who may `get` it.
    pub fn add_document(
        &self,
        path: &'static str,
        document: impl Fn() -> serde_json::Value + Send + Sync + 'static,
    ) {
        self.extra_endpoints.add_document(path, move || {
            let document = document();
            Box::pin(async move { document })
        });
    }

    /// Shows a document that has to be waited for, else the same as [`Self::add_document`].
    pub fn add_async_document(
        &self,
        path: &'static str,
        document: impl Fn() -> BoxFuture<'static, serde_json::Value> + Send + Sync + 'static,
    ) {
        self.extra_endpoints.add_document(path, document);
    }

    /// Adds a setting at an unused path, for users who may `get` it, and changed by those who may `put` it. Changing returns a
    /// message or an error.
    pub fn add_setting<E: fmt::Display>(
        &self,
        path: &'static str,
        get: impl Fn() -> String + Send + Sync + 'static,
        set: impl Fn(&str) -> Result<String, E> + Send + Sync + 'static,
    ) {
        let setting = ProcessSetting {
            get: Arc::new(get),
            set: Arc::new(move |value: &str| set(value).map_err(SettingError::refused)),
            only_masters: false,
        };
        self.extra_endpoints.add_setting(path, setting);
    }

    /// Adds an action for members of system:masters, invoked with PUT. No role grants the path to others. It returns a message
    /// or an error.
    pub fn add_masters_action<E: fmt::Display>(
        &self,
        path: &'static str,
        action: impl Fn(&str) -> Result<String, E> + Send + Sync + 'static,
    ) {
        let setting = ProcessSetting {
            get: Arc::new(String::new),
            set: Arc::new(move |value: &str| action(value).map_err(SettingError::refused)),
            only_masters: true,
        };
        self.extra_endpoints.add_setting(path, setting);
    }

    /// Replaces the signing key of service-account tokens (ECDSA P-256, PKCS#8 DER). Tokens signed with one of `more` are
    /// trusted too; those of the previous key only if it is among them.
    pub fn replace_keys(&self, signing_key: &[u8], more: &[PublicKey]) -> Result<(), BadSigningKey> {
        self.authenticator.replace_keys(signing_key, more)
    }

    /// Shows nodes another certificate from now on, and believes other authorities of theirs.
    pub fn replace_node_client(&self, client: &NodeClient) -> Result<(), StartError> {
        self.nodes
            .replace_client(client)
            .map_err(|error| StartError::NodeClient(error.to_string()))
    }

    /// Takes connections until `stop` is ready, then ends them in an orderly way: watches end, requests are answered, and
    /// what is not done after some seconds is cut off.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
        stop: impl Future<Output = ()> + Send,
    ) {
        self.add_own_address(&listener);
        connection::serve(&self.handler, listener, Some(tls), Box::pin(stop)).await;
    }

    /// The same without TLS: anyone on the network path can read and change everything. For a listener that only this machine
    /// can reach.
    pub async fn serve_plain(&self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        self.add_own_address(&listener);
        connection::serve(&self.handler, listener, None, Box::pin(stop)).await;
    }

    fn add_own_address(&self, listener: &TcpListener) {
        if let Ok(address) = listener.local_addr() {
            self.dialer.add_own(address);
        }
    }
}

/// Connects to addresses that objects name, but not to this server.
fn dialer(config: &Config) -> Dialer {
    let (ip, port) = config.advertise;
    let address = SocketAddr::new(ip, port);
    let service = kubernetes_address(&config.service_range);
    Dialer::new(address, service, config.service_range)
}

/// Takes the configuration of authentication.
fn authenticator(config: &mut Config, caches: &Arc<WatchCaches>) -> Result<Authenticator, BadSigningKey> {
    let signer = Signer::new(config.issuer.clone(), &config.signing_key)?;
    let authentication = std::mem::take(&mut config.authentication);
    Ok(Authenticator::new(authentication, signer, Arc::clone(caches)))
}

/// The admission plugins that the configuration asks for.
fn admission_chain(
    config: &Config,
    authorizer: &Arc<Authorizer>,
    outgoing: &Arc<WebhookClientManager>,
    writer: StoreWriter,
) -> AdmissionChain {
    let mut admission = AdmissionChain::new(authorizer, outgoing, writer);
    if config.guard_owners {
        admission.enforce_owner_reference_permissions(authorizer);
    }
    if config.pod_accounts == PodAccounts::Free {
        admission.remove_plugin("ServiceAccount");
    }
    admission
}

/// What serves resources and subresources, with what each of them needs.
fn rest_storages(
    caches: &Arc<WatchCaches>,
    authorizer: &Arc<Authorizer>,
    authenticator: &Arc<Authenticator>,
    nodes: &Arc<NodeConnectionInfoGetter>,
    admission: &Arc<ObjectAdmission>,
    objects: &Arc<Registry>,
) -> RestStorages {
    RestStorages {
        caches: Arc::clone(caches),
        objects: Arc::clone(objects),
        component_statuses: ComponentStatusStorage::new(Arc::clone(caches)),
        reviews: ReviewStorage::new(
            Arc::clone(caches),
            Arc::clone(authorizer),
            Arc::clone(authenticator),
        ),
        token_requests: TokenRequestStorage::new(
            Arc::clone(caches),
            Arc::clone(authenticator),
            Arc::clone(admission),
        ),
        connections: ConnectStorage::new(
            Arc::clone(caches),
            Arc::clone(authorizer),
            Arc::clone(nodes),
            Arc::clone(admission),
        ),
    }
}
