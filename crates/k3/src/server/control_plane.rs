//! Start and stop of a control plane.

use std::{
    mem,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k3_apiserver::{Config, EndpointReconcilerType, Server, kubernetes_address};
use k3_controllers::{CaBundle, ClusterConfig, ServerIdentity, TokenSigner};
use k3_encryption::Reloader;
use k3_storage::{Compactor, OpenError, Store, StoreError, backend::StorageConfig};
use kubecontroller::Clock;
use kubecontroller::manager::Stop;
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    ControlPlaneSettings, KeySource, ServerVisibility, address, components,
    encryption::ServerStore,
    listener::{listen, listen_for_pods, listen_plain},
    node::{self, ApiEndpoint},
    renewal::{self, CertificateRenewal, CertificateSource, CurrentCertificates},
    shared_keys::{self, ConflictPolicy},
    snapshot::offer_snapshots,
};
use crate::{
    certificates::{CertificateError, ServerCertificates, SubjectAltNames},
    client_factory::ClientFactory,
    command_error::CommandError,
    data_dir::is_data_file,
    file_format, kubeconfig, log,
    secret_file::{self, FileError},
    tls::ServerTls,
};

/// How often the store is compacted, and so how long old revisions can at least be watched. The default of upstream's
/// `--etcd-compaction-interval`.
const COMPACTION_INTERVAL: Duration = Duration::from_mins(5);

/// Grace period in which controllers finish their current work.
const GRACE: Duration = Duration::from_secs(5);

/// Pause before an unavailable store is tried again.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// A running control plane. Dropping it aborts everything; [`ControlPlane::stop`] stops it in order.
pub(crate) struct ControlPlane {
    /// Tasks that renew certificates.
    renewals: JoinSet<()>,
    kubeconfig: (PathBuf, String),
    server: Arc<Server>,
    store: Arc<dyn Store>,
    compactor: Compactor,
    /// Controllers and node; they run until `stop_components`.
    components: JoinSet<()>,
    stop_components: Stop,
    /// Tasks that accept connections until `stop_serving` is dropped.
    serving: JoinSet<()>,
    stop_serving: watch::Sender<()>,
    /// Reloads the encryption configuration while this lives.
    _reloader: Option<Reloader>,
}

struct ServerListeners {
    secure: TcpListener,
    address: SocketAddr,
    plain: Option<TcpListener>,
    advertise: IpAddr,
}

// --- ControlPlane ---

impl ControlPlane {
    /// Starts a control plane, and returns when it serves. Must be called inside a Tokio runtime. Dropping the future aborts the start.
    pub(crate) async fn start(mut settings: ControlPlaneSettings) -> Result<Self, CommandError> {
        let started_at = Instant::now();
        let kubernetes = k3_apiserver::version();
        let kubernetes = kubernetes["gitVersion"].as_str().unwrap_or_default();
        tracing::info!(version = env!("CARGO_PKG_VERSION"), kubernetes, "starting k3");
        let data_dir = usable_data_dir(&settings.data_dir)?;
        tracing::info!(path = %data_dir.display(), "using data directory");
        let listeners = ServerListeners::open(&settings).await?;
        let store = open_store(&*settings.storage, settings.storage_wait).await?;
        let encryption = settings.encryption.take();
        let encrypted = ServerStore::new(Arc::clone(&store), encryption).await;
        let started = Self::serve(settings, &data_dir, listeners, encrypted).await;
        if started.is_err() {
            store.close().await;
        } else {
            tracing::info!("ready in {} ms", started_at.elapsed().as_millis());
        }
        started
    }

    async fn serve(
        mut settings: ControlPlaneSettings,
        data_dir: &Path,
        listeners: ServerListeners,
        server_store: ServerStore,
    ) -> Result<Self, CommandError> {
        let store = Arc::clone(&server_store.store);
        let names = certificate_names(&mut settings, listeners.advertise);
        let identity = identity(&settings, listeners.advertise, &names);
        let write_file = match &settings.keys {
            KeySource::Generated => secret_file::write_without_sync,
            KeySource::DataDir | KeySource::Provided(_) => secret_file::write,
        };
        let (source, certificates) = certificates(&mut settings, data_dir, &names, &store).await?;
        let signing_key = settings.signing_key.take();
        let certificates = certificates.with_signing_key(signing_key.as_deref());
        let tls = ServerTls::new(&certificates).map_err(certificate_error)?;
        settings.authentication.certificates = Some(Arc::clone(&tls.clients));
        let compactor = Compactor::start(Arc::clone(&store), COMPACTION_INTERVAL, Clock::system());
        let config = api_config(&mut settings, &certificates, &listeners);
        tracing::debug!("starting the API server");
        let starting = Box::pin(Server::start(config, Arc::clone(&store)));
        let server = starting.await.map_err(|error| {
            let advice = "check the cause; the store can be inspected with the tools of its database";
            CommandError::new("cannot start the API server", advice).caused_by(error)
        })?;
        let server = Arc::new(server);
        server.add_setting(log::LEVEL_PATH, log::current, log::change);
        offer_snapshots(&server, Arc::clone(&server_store.raw), data_dir);
        let reloader = server_store.publish(&server);
        let old_keys = &certificates.old_signing_keys;
        server
            .replace_keys(&certificates.signing_key, old_keys)
            .map_err(|error| {
                CommandError::new(
                    "cannot start the API server",
                    "check the keys in the directory `tls` of the data directory",
                )
                .caused_by(error)
            })?;
        let address = listeners.address;
        let advertise = listeners.advertise;
        tracing::info!(address = format!("https://{address}"), "serving the API");
        let for_pods = match &settings.node {
            Some(_) => listen_for_pods(advertise, address).await,
            None => None,
        };
        let authority = certificates.authority.clone();
        let api = ApiEndpoint {
            address: advertise.to_string(),
            port: address.port(),
            authority: &authority,
        };
        let stop_components = Stop::new();
        let kubeconfig = write_kubeconfigs(&settings, data_dir, address, &certificates, write_file)?;
        let (node, node_trust) = watch::channel(certificates.authority.clone());
        let published = CaBundle::from(certificates.authority.clone());
        let current = CurrentCertificates::new(certificates);
        let published_too = published.clone();
        log_node(&settings).await;
        let components = start_components(
            &mut settings,
            data_dir,
            (&server, identity),
            (&current, published_too, node_trust),
            &api,
            &stop_components,
        )?;
        let (stop_serving, stopped) = watch::channel(());
        let serving = accept_connections(listeners, for_pods, &server, &tls.config, &stopped);
        let mut renewals = JoinSet::new();
        if let Some(source) = source {
            let kubeconfigs = [
                Some(data_dir.join("admin.kubeconfig")),
                settings.kubeconfig_out.clone(),
            ];
            let renewal = CertificateRenewal {
                source,
                names,
                signing_key,
                kubeconfigs: kubeconfigs.into_iter().flatten().collect(),
                address,
                server: Arc::clone(&server),
                tls,
                current: current.clone(),
                published,
                node,
            };
            renewals.spawn(renewal.run());
        }
        Ok(ControlPlane {
            renewals,
            kubeconfig,
            server,
            store,
            compactor,
            components,
            stop_components,
            serving,
            stop_serving,
            _reloader: reloader,
        })
    }

    /// The path and content of the admin's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> (&Path, &str) {
        (&self.kubeconfig.0, &self.kubeconfig.1)
    }

    /// The API server, for clients in this process (`ClientFactory::InProcess`).
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Waits until a task fails. Cancel safe.
    pub(crate) async fn wait_for_failure(&mut self) -> CommandError {
        // Controllers and node run until they are stopped, so any exit is a failure.
        let ended = tokio::select! {
            Some(ended) = self.serving.join_next() => ended,
            Some(ended) = self.components.join_next() => ended,
        };
        let failure = CommandError::new(
            "the server stopped unexpectedly",
            "check the log above, and start it again",
        );
        match ended {
            Ok(()) => failure,
            Err(error) => failure.caused_by(error),
        }
    }

    /// Stops everything in order: clients of the API, the API server, the store. Dropping the future aborts what still runs.
    pub(crate) async fn stop(mut self) {
        self.renewals.shutdown().await;
        self.stop_components.stop(GRACE);
        while self.components.join_next().await.is_some() {}
        tracing::info!("stopped controllers and node");
        self.server.withdraw().await;
        drop(self.stop_serving);
        while self.serving.join_next().await.is_some() {}
        drop((self.server, self.compactor));
        tracing::info!("stopped the API server");
        self.store.close().await;
        tracing::info!("stopped");
    }
}

/// Subject alternative names of the serving certificate.
fn certificate_names(settings: &mut ControlPlaneSettings, advertise: IpAddr) -> SubjectAltNames {
    let kubernetes = kubernetes_address(&settings.service_range);
    let mut names = SubjectAltNames::new([settings.bind, advertise, kubernetes]);
    names.extend(address::host_name());
    names.extend(mem::take(&mut settings.names));
    names
}

/// Names and addresses that serving certificates of nodes must not contain.
fn identity(settings: &ControlPlaneSettings, advertise: IpAddr, names: &SubjectAltNames) -> ServerIdentity {
    let mut foreign_addresses = names.addresses();
    foreign_addresses.retain(|known| !address::is_local_address(*known));
    let range = &settings.service_range;
    ServerIdentity {
        hosts: names.hosts(),
        host_name: address::host_name().map(|name| name.to_string()),
        foreign_addresses,
        advertise: Some(advertise),
        service_networks: vec![format!("{}/{}", range.network, range.prefix)],
        node: settings.node.as_ref().map(|node| node.name.clone()),
    }
}

/// Loads the certificates to serve with, and returns the source that later renews them, if there is one.
async fn certificates(
    settings: &mut ControlPlaneSettings,
    data_dir: &Path,
    names: &SubjectAltNames,
    store: &Arc<dyn Store>,
) -> Result<(Option<CertificateSource>, ServerCertificates), CommandError> {
    let (source, certificates) = match mem::take(&mut settings.keys) {
        KeySource::DataDir => {
            let directory = data_dir.join("tls");
            let shared = if settings.storage.backend().is_shared() {
                let synced =
                    shared_keys::sync_keys(store.as_ref(), &directory, ConflictPolicy::Reject).await?;
                Some((Arc::clone(store), synced.revision))
            } else {
                None
            };
            let generation = renewal::generation(&directory);
            let certificates = ServerCertificates::ensure(&directory, names, &Clock::system());
            let source = CertificateSource {
                directory,
                generation,
                shared,
            };
            (Some(source), certificates)
        }
        KeySource::Generated => (None, ServerCertificates::generate(names, &Clock::system())),
        KeySource::Provided(certificates) => (None, Ok(*certificates)),
    };
    Ok((source, certificates.map_err(certificate_error)?))
}

/// Fills the configuration of the API server.
fn api_config(
    settings: &mut ControlPlaneSettings,
    certificates: &ServerCertificates,
    listeners: &ServerListeners,
) -> Config {
    Config {
        authentication: mem::take(&mut settings.authentication),
        service_range: settings.service_range,
        issuer: mem::take(&mut settings.issuer),
        unrestricted_update: settings.unrestricted_update,
        signing_key: certificates.signing_key.clone(),
        advertise: (listeners.advertise, listeners.address.port()),
        endpoint_reconciler: match settings.audience {
            ServerVisibility::Process => EndpointReconcilerType::Hidden,
            ServerVisibility::Cluster if settings.storage.backend().is_shared() => {
                EndpointReconcilerType::Among
            }
            ServerVisibility::Cluster => EndpointReconcilerType::Alone,
        },
        nodes: Some(components::node_client(certificates)),
        usage: settings.has_nodes,
        guard_owners: settings.guard_owners,
        pod_accounts: settings.pod_accounts,
        limits: settings.limits,
        audit: settings.audit.take(),
    }
}

/// Starts the controllers and the node. They run until they are stopped.
fn start_components(
    settings: &mut ControlPlaneSettings,
    data_dir: &Path,
    (server, identity): (&Arc<Server>, ServerIdentity),
    (current, published, node_trust): (&CurrentCertificates, CaBundle, watch::Receiver<String>),
    api: &ApiEndpoint<'_>,
    stop: &Stop,
) -> Result<JoinSet<()>, CommandError> {
    let mut running = JoinSet::new();
    let components = mem::take(&mut settings.components);
    // Local volumes are directories of nodes.
    let makes_volumes = settings.has_nodes || components.simulates();
    let cluster = ClusterConfig {
        authority: published,
        local_volumes: makes_volumes.then(|| data_dir.join("volumes").display().to_string()),
        certificates: Some(current.signer()),
        tokens: Some(TokenSigner::new(server.token_signer())),
        server: identity,
        ..ClusterConfig::default()
    };
    if !components.is_empty() {
        tracing::info!("starting {components}");
    }
    let mut config = mem::take(&mut settings.manager_config);
    config.leader.elect &= settings.storage.backend().is_shared();
    running.spawn(components::run_controllers(
        server,
        components,
        cluster,
        config,
        stop.clone(),
    )?);
    if let Some(node) = settings.node.take() {
        let config = node::config(node, data_dir, api);
        let client = ClientFactory::InProcess(server).node(&config.node_name)?;
        running.spawn(node::run_renewed(config, client, stop.clone(), node_trust));
    }
    Ok(running)
}

/// Accepts connections until the sender of `stopped` is dropped.
fn accept_connections(
    listeners: ServerListeners,
    for_pods: Option<TcpListener>,
    server: &Arc<Server>,
    tls: &Arc<ServerConfig>,
    stopped: &watch::Receiver<()>,
) -> JoinSet<()> {
    let mut serving = JoinSet::new();
    for listener in [Some(listeners.secure), for_pods].into_iter().flatten() {
        let server = Arc::clone(server);
        let tls = Arc::clone(tls);
        let stopped = until(stopped.clone());
        serving.spawn(async move { server.serve(listener, tls, stopped).await });
    }
    if let Some(listener) = listeners.plain {
        if let Ok(address) = listener.local_addr() {
            tracing::warn!(%address, "serving unencrypted HTTP on the loopback address");
        }
        let server = Arc::clone(server);
        let stopped = until(stopped.clone());
        serving.spawn(async move { server.serve_plain(listener, stopped).await });
    }
    serving
}

/// Completes when the sender is dropped.
async fn until(mut stopped: watch::Receiver<()>) {
    // A dropped sender means stop.
    let _ = stopped.changed().await;
}

// --- ServerListeners ---

impl ServerListeners {
    async fn open(settings: &ControlPlaneSettings) -> Result<Self, CommandError> {
        let secure = listen(SocketAddr::new(settings.bind, settings.port)).await?;
        let plain = match settings.plain_port {
            None => None,
            Some(port) => Some(listen_plain(port).await?),
        };
        let address = secure.local_addr().map_err(|error| {
            CommandError::new(
                "cannot read the listening port",
                "this should not happen; try again",
            )
            .caused_by(error)
        })?;
        let advertise = settings.advertise;
        Ok(ServerListeners {
            secure,
            address,
            plain,
            advertise: advertise.unwrap_or_else(|| address::advertise_address(settings.bind)),
        })
    }
}

/// Opens the store. An unavailable store is retried until `wait` has passed.
pub(crate) async fn open_store(
    storage: &dyn StorageConfig,
    wait: Duration,
) -> Result<Arc<dyn Store>, CommandError> {
    tracing::debug!(storage = storage.backend().name(), "opening store");
    let end = Instant::now() + wait;
    loop {
        let error = match storage.open().await {
            Ok(store) => {
                tracing::info!(storage = %storage.describe(), "opened store");
                return Ok(store);
            }
            Err(error) => error,
        };
        let is_retriable = matches!(error, OpenError::Store(StoreError::Unavailable { .. }));
        if !is_retriable || Instant::now() + STORE_RETRY > end {
            return Err(cannot_open(storage, error));
        }
        tracing::warn!(%error, "waiting for the store");
        sleep(STORE_RETRY).await;
    }
}

/// Logs whether a node runs here, and if not, how to get one.
async fn log_node(settings: &ControlPlaneSettings) {
    match &settings.node {
        Some(node) => match node::detect_runtime(node).await {
            Ok(runtime) => tracing::info!(node = node.name, runtime, "starting node"),
            Err(reason) => {
                tracing::warn!(node = node.name, "node is not ready: {reason}");
            }
        },
        None if settings.components.simulates() => {}
        None => tracing::info!("no node in this process: pods run on nodes that join the cluster"),
    }
}

fn cannot_open(storage: &dyn StorageConfig, error: OpenError) -> CommandError {
    let name = storage.backend().name();
    if let OpenError::InvalidSetting { setting, .. } = &error {
        let what = format!("storage.{name}.{setting} is invalid");
        return CommandError::usage(what, format!("see the flags --{name}-... in `k3 start --help`"))
            .caused_by(error);
    }
    CommandError::new(
        format!("cannot open the store (--storage {name})"),
        "check that it is reachable and not in use, or choose another with --storage or --data-dir",
    )
    .caused_by(error)
}

pub(super) fn certificate_error(error: CertificateError) -> CommandError {
    let advice = match &error {
        CertificateError::KeyMissing { .. }
        | CertificateError::AuthorityUnfit { .. }
        | CertificateError::Key { .. } => {
            "restore the file; or remove the directory it is in, and a new authority is made: then every\n\
             kubeconfig, certificate and token of the old one is worthless"
        }
        CertificateError::Clock => "set the clock",
        _ => {
            "check that this user may write to the directory `tls` in --data-dir, and that the disk has space"
        }
    };
    CommandError::new("cannot load or create the certificates", advice).caused_by(error)
}

/// Writes the admin's kubeconfig, and returns the path to report and the content.
fn write_kubeconfigs(
    settings: &ControlPlaneSettings,
    data_dir: &Path,
    address: SocketAddr,
    certificates: &ServerCertificates,
    write: fn(&Path, &str) -> Result<(), FileError>,
) -> Result<(PathBuf, String), CommandError> {
    let text = kubeconfig::text(address, &certificates.authority, &certificates.admin);
    let own = data_dir.join("admin.kubeconfig");
    let mut reported = own.clone();
    for file in [Some(&own), settings.kubeconfig_out.as_ref()]
        .into_iter()
        .flatten()
    {
        write(file, &text).map_err(|error| {
            let advice = "name a file in an existing directory that this user may write to";
            CommandError::new("cannot write the admin's kubeconfig", advice).caused_by(error)
        })?;
        reported = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    }
    Ok((reported, text))
}

fn usable_data_dir(directory: &Path) -> Result<PathBuf, CommandError> {
    secret_file::protect_directory(directory, is_data_file).map_err(|error| {
        CommandError::new(
            "cannot use the data directory",
            "choose a directory that this user may write to with --data-dir",
        )
        .caused_by(error)
    })?;
    file_format::claim_data_dir(directory)?;
    // Absolute, because the paths in messages and kubeconfigs are used from other directories.
    std::path::absolute(directory).map_err(|error| {
        CommandError::new(
            "cannot determine the current directory",
            "give --data-dir an absolute path",
        )
        .caused_by(error)
    })
}
