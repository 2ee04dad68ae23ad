//! The life of a control plane: from its settings to the last connection.

use std::{
    mem,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k3_apiserver::{Config, EndpointReconcilerType, Server, kubernetes_address};
use k3_controllers::{Authority, Cluster, ServerIdentity, TokenSigner};
use k3_encryption::Reloader;
use k3_storage::{Compactor, OpenError, StorageConfig, Store, StoreError, SystemClock};
use kubecontroller::manager::Stop;
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    Audience, Keys, Settings, address,
    encryption::ServerStore,
    listener::{listen, listen_for_pods, listen_plain},
    node::{self, Api},
    parts,
    renewal::{self, Current, Renewal, Source},
    settings::{is_shared, store_name},
    shared_keys::{self, Clash},
    snapshot::offer_snapshots,
};
use crate::{
    certificates::{CertificateError, Certificates, Names},
    data_dir::is_data_file,
    door::Door,
    failure::Failure,
    file_format, kubeconfig, log,
    secret_file::{self, FileError},
    tls::Tls,
};

/// How much history is kept for watches that begin in the past, as upstream keeps it.
const HISTORY: Duration = Duration::from_mins(5);

/// How long controllers may take to finish what they have begun.
const GRACE: Duration = Duration::from_secs(5);

/// The pause before a store that does not answer is tried again.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// A control plane that serves. Dropping it cuts everything off; [`ControlPlane::stop`] ends it in order.
pub(crate) struct ControlPlane {
    /// What replaces certificates. It ends with this.
    keepers: JoinSet<()>,
    kubeconfig: (PathBuf, String),
    server: Arc<Server>,
    store: Arc<dyn Store>,
    /// Ends with this.
    compactor: Compactor,
    /// The controllers and the node, which end when they are told to and not before.
    parts: JoinSet<()>,
    stop_parts: Stop,
    /// What takes connections. It ends when `stop_serving` is dropped.
    serving: JoinSet<()>,
    stop_serving: watch::Sender<()>,
    /// Reads the encryption configuration again. It ends with this.
    _reloader: Option<Reloader>,
}

/// Where a server listens.
struct Listeners {
    secure: TcpListener,
    address: SocketAddr,
    plain: Option<TcpListener>,
    /// Where others reach it.
    advertise: IpAddr,
}

// --- ControlPlane ---

impl ControlPlane {
    /// Starts one, and answers when it serves. Must be called inside a Tokio runtime. Dropping the future ends what has begun.
    pub(crate) async fn start(mut settings: Settings) -> Result<Self, Failure> {
        let data_dir = usable_data_dir(&settings.data_dir)?;
        let listeners = Listeners::open(&settings).await?;
        let store = open_store(&settings.storage, settings.storage_wait).await?;
        let encryption = settings.encryption.take();
        let encrypted = ServerStore::new(Arc::clone(&store), encryption).await;
        let started = Self::serve(settings, &data_dir, listeners, encrypted).await;
        if started.is_err() {
            store.close().await;
        }
        started
    }

    async fn serve(
        mut settings: Settings,
        data_dir: &Path,
        listeners: Listeners,
        server_store: ServerStore,
    ) -> Result<Self, Failure> {
        let store = Arc::clone(&server_store.store);
        let names = names(&mut settings, listeners.advertise);
        let identity = identity(&settings, listeners.advertise, &names);
        let write_file = match &settings.keys {
            Keys::Fresh => secret_file::write_for_now,
            Keys::Kept | Keys::Given(_) => secret_file::write,
        };
        let (kept, certificates) = certificates(&mut settings, data_dir, &names, &store).await?;
        let signing_key = settings.signing_key.take();
        let certificates = certificates.with_signing_key(signing_key.as_deref());
        let tls = Tls::new(&certificates).map_err(no_certificates)?;
        settings.authentication.certificates = Some(Arc::clone(&tls.clients));
        let compactor = Compactor::start(Arc::clone(&store), HISTORY, Arc::new(SystemClock));
        let config = api_config(&mut settings, &certificates, &listeners);
        tracing::info!("starting the API server");
        let starting = Box::pin(Server::start(config, Arc::clone(&store)));
        let server = starting.await.map_err(|error| {
            let advice = "see the cause; the store can be looked at with its own tools";
            Failure::new("cannot start the API server", advice).because(error)
        })?;
        let server = Arc::new(server);
        server.add_setting(log::LEVEL_PATH, log::current, log::change);
        offer_snapshots(&server, Arc::clone(&server_store.raw), data_dir);
        let reloader = server_store.publish(&server);
        let (old_keys, key) = (&certificates.old_signing_keys, &certificates.signing_key);
        server.replace_keys(key, old_keys).map_err(|error| {
            Failure::new("cannot start the API server", "see the keys in the folder `tls`").because(error)
        })?;
        let (address, advertise) = (listeners.address, listeners.advertise);
        let for_pods = match &settings.node {
            Some(_) => listen_for_pods(advertise, address).await,
            None => None,
        };
        let authority = certificates.authority.clone();
        let api = Api {
            address: advertise.to_string(),
            port: address.port(),
            authority: &authority,
        };
        let stop_parts = Stop::new();
        let kubeconfig = write_kubeconfigs(&settings, data_dir, address, &certificates, write_file)?;
        let (node, node_trust) = watch::channel(certificates.authority.clone());
        let published = Authority::from(certificates.authority.clone());
        let current = Current::new(certificates);
        let published_too = published.clone();
        let parts = run_parts(
            &mut settings,
            data_dir,
            (&server, identity),
            (&current, published_too, node_trust),
            &api,
            &stop_parts,
        )?;
        let (stop_serving, stopped) = watch::channel(());
        let serving = take_connections(listeners, for_pods, &server, &tls.config, &stopped);
        let mut keepers = JoinSet::new();
        if let Some(source) = kept {
            let kubeconfigs = [
                Some(data_dir.join("admin.kubeconfig")),
                settings.kubeconfig_out.clone(),
            ];
            let renewal = Renewal {
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
            keepers.spawn(renewal.keep());
        }
        tracing::info!(
            storage = store_name(&settings.storage),
            "serving https://{address}"
        );
        Ok(ControlPlane {
            keepers,
            kubeconfig,
            server,
            store,
            compactor,
            parts,
            stop_parts,
            serving,
            stop_serving,
            _reloader: reloader,
        })
    }

    /// The admin's kubeconfig: the file, and what is in it.
    pub(crate) fn kubeconfig(&self) -> (&Path, &str) {
        (&self.kubeconfig.0, &self.kubeconfig.1)
    }

    /// The API server, for those in this process who are its clients (`Door::Inside`).
    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Waits until it ended by itself, which it does not do unless something is wrong. Nothing is lost when this is dropped.
    pub(crate) async fn ended(&mut self) -> Failure {
        // The controllers and the node end when they are told to, which they have not been.
        let ended = tokio::select! {
            Some(ended) = self.serving.join_next() => ended,
            Some(ended) = self.parts.join_next() => ended,
        };
        let failure = Failure::new(
            "the server ended by itself",
            "see the log above, and start it again",
        );
        match ended {
            Ok(()) => failure,
            Err(error) => failure.because(error),
        }
    }

    /// Ends everything, first those who use the API, then the API, then the store. Dropping the future cuts off what is left.
    pub(crate) async fn stop(mut self) {
        self.keepers.shutdown().await;
        self.stop_parts.stop(GRACE);
        while self.parts.join_next().await.is_some() {}
        tracing::info!("stopped what runs beside the API server");
        self.server.withdraw().await;
        drop(self.stop_serving);
        while self.serving.join_next().await.is_some() {}
        drop((self.server, self.compactor));
        tracing::info!("stopped the API server");
        self.store.close().await;
        tracing::info!("stopped");
    }
}

/// What the serving certificate is for.
fn names(settings: &mut Settings, advertise: IpAddr) -> Names {
    let kubernetes = kubernetes_address(&settings.service_range);
    let mut names = Names::new([settings.bind, advertise, kubernetes]);
    names.extend(address::host_name());
    names.extend(mem::take(&mut settings.names));
    names
}

/// What nodes may not serve under.
fn identity(settings: &Settings, advertise: IpAddr, names: &Names) -> ServerIdentity {
    let mut foreign_addresses = names.addresses();
    foreign_addresses.retain(|known| !address::is_of_this_machine(*known));
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

/// The certificates and keys to serve with; and where they are kept and what was there, if they are.
async fn certificates(
    settings: &mut Settings,
    data_dir: &Path,
    names: &Names,
    store: &Arc<dyn Store>,
) -> Result<(Option<Source>, Certificates), Failure> {
    let (kept, certificates) = match mem::take(&mut settings.keys) {
        Keys::Kept => {
            let folder = data_dir.join("tls");
            let shared = if is_shared(&settings.storage) {
                let agreed = shared_keys::agree(store.as_ref(), &folder, Clash::Refused).await?;
                Some((Arc::clone(store), agreed.revision))
            } else {
                None
            };
            let seen = renewal::generation(&folder);
            let certificates = Certificates::ensure(&folder, names, &SystemClock);
            let source = Source { folder, seen, shared };
            (Some(source), certificates)
        }
        Keys::Fresh => (None, Certificates::fresh(names, &SystemClock)),
        Keys::Given(certificates) => (None, Ok(*certificates)),
    };
    Ok((kept, certificates.map_err(no_certificates)?))
}

/// What the API server is told.
fn api_config(settings: &mut Settings, certificates: &Certificates, listeners: &Listeners) -> Config {
    Config {
        authentication: mem::take(&mut settings.authentication),
        service_range: settings.service_range,
        issuer: mem::take(&mut settings.issuer),
        unrestricted_update: settings.unrestricted_update,
        signing_key: certificates.signing_key.clone(),
        advertise: (listeners.advertise, listeners.address.port()),
        endpoint_reconciler: match settings.audience {
            Audience::Process => EndpointReconcilerType::Hidden,
            Audience::Cluster if is_shared(&settings.storage) => EndpointReconcilerType::Among,
            Audience::Cluster => EndpointReconcilerType::Alone,
        },
        nodes: Some(parts::node_client(certificates)),
        usage: settings.has_nodes,
        guard_owners: settings.guard_owners,
        pod_accounts: settings.pod_accounts,
        limits: settings.limits,
        audit: settings.audit.take(),
    }
}

/// Begins the controllers and the node. All of it ends when it is told to, and not before.
fn run_parts(
    settings: &mut Settings,
    data_dir: &Path,
    (server, identity): (&Arc<Server>, ServerIdentity),
    (current, published, node_trust): (&Current, Authority, watch::Receiver<String>),
    api: &Api<'_>,
    stop: &Stop,
) -> Result<JoinSet<()>, Failure> {
    let mut running = JoinSet::new();
    let chosen = mem::take(&mut settings.chosen);
    // Without nodes there is no folder to make volumes of.
    let makes_volumes = settings.has_nodes || chosen.simulates();
    let cluster = Cluster {
        authority: published,
        local_volumes: makes_volumes.then(|| data_dir.join("volumes").display().to_string()),
        certificates: Some(current.signer()),
        tokens: Some(TokenSigner::new(server.token_signer())),
        server: identity,
        ..Cluster::default()
    };
    if !chosen.is_nothing() {
        tracing::info!("starting {chosen}");
    }
    let mut config = mem::take(&mut settings.control);
    config.leader.elect &= is_shared(&settings.storage);
    running.spawn(parts::control(server, chosen, cluster, config, stop.clone())?);
    if let Some(node) = settings.node.take() {
        tracing::info!("starting the node {}", node.name);
        let config = node::config(node, data_dir, api);
        let client = Door::Inside(server).node(&config.node_name)?;
        running.spawn(node::run_renewed(config, client, stop.clone(), node_trust));
    }
    Ok(running)
}

/// Begins to serve, until the sender of `stopped` has gone.
fn take_connections(
    listeners: Listeners,
    for_pods: Option<TcpListener>,
    server: &Arc<Server>,
    tls: &Arc<ServerConfig>,
    stopped: &watch::Receiver<()>,
) -> JoinSet<()> {
    let mut serving = JoinSet::new();
    for listener in [Some(listeners.secure), for_pods].into_iter().flatten() {
        let (server, tls, stopped) = (Arc::clone(server), Arc::clone(tls), until(stopped.clone()));
        serving.spawn(async move { server.serve(listener, tls, stopped).await });
    }
    if let Some(listener) = listeners.plain {
        if let Ok(address) = listener.local_addr() {
            tracing::warn!("serving http://{address} too, which is not encrypted, for this machine alone");
        }
        let (server, stopped) = (Arc::clone(server), until(stopped.clone()));
        serving.spawn(async move { server.serve_plain(listener, stopped).await });
    }
    serving
}

/// Ready when the sender has gone.
async fn until(mut stopped: watch::Receiver<()>) {
    // A stop that is dropped is a stop.
    let _ = stopped.changed().await;
}

// --- Listeners ---

impl Listeners {
    async fn open(settings: &Settings) -> Result<Self, Failure> {
        let secure = listen(SocketAddr::new(settings.bind, settings.port)).await?;
        let plain = match settings.plain_port {
            None => None,
            Some(port) => Some(listen_plain(port).await?),
        };
        let address = secure.local_addr().map_err(|error| {
            Failure::new("cannot tell the port", "this should not happen; try again").because(error)
        })?;
        let advertise = settings.advertise;
        Ok(Listeners {
            secure,
            address,
            plain,
            advertise: advertise.unwrap_or_else(|| address::advertised(settings.bind)),
        })
    }
}

/// Opens the store. One that cannot be reached is tried again until `wait` is over.
pub(crate) async fn open_store(storage: &StorageConfig, wait: Duration) -> Result<Arc<dyn Store>, Failure> {
    tracing::info!("opening the store ({})", store_name(storage));
    let end = Instant::now() + wait;
    loop {
        let error = match k3_storage::open(storage.clone()).await {
            Ok(store) => return Ok(store),
            Err(error) => error,
        };
        let is_reachable_later = matches!(error, OpenError::Store(StoreError::Unavailable { .. }));
        if !is_reachable_later || Instant::now() + STORE_RETRY > end {
            return Err(cannot_open(storage, error));
        }
        tracing::warn!(%error, "waiting for the store");
        sleep(STORE_RETRY).await;
    }
}

fn cannot_open(storage: &StorageConfig, error: OpenError) -> Failure {
    let name = store_name(storage);
    if let OpenError::Setting { setting, .. } = &error {
        let what = format!("storage.{name}.{setting} makes no sense");
        return Failure::usage(what, format!("`k3 start --help` tells the flags --{name}-..."))
            .because(error);
    }
    Failure::new(
        format!("cannot open the store (--storage {name})"),
        "see that it is reachable and free, or choose another with --storage or --data-dir",
    )
    .because(error)
}

pub(super) fn no_certificates(error: CertificateError) -> Failure {
    let advice = match &error {
        CertificateError::KeyMissing { .. }
        | CertificateError::AuthorityUnfit { .. }
        | CertificateError::Key { .. } => {
            "restore the file; or remove the folder it is in, and a new authority is made: then every\n\
             kubeconfig, certificate and token of the old one is worthless"
        }
        CertificateError::Clock => "set the clock",
        _ => "see that this user may write to the folder `tls` in --data-dir, and that the disk has space",
    };
    Failure::new("no certificates to serve with", advice).because(error)
}

/// Writes the admin's kubeconfig where it is wanted: the file that is to be used, and what is in it.
fn write_kubeconfigs(
    settings: &Settings,
    data_dir: &Path,
    address: SocketAddr,
    certificates: &Certificates,
    write: fn(&Path, &str) -> Result<(), FileError>,
) -> Result<(PathBuf, String), Failure> {
    let text = kubeconfig::text(address, &certificates.authority, &certificates.admin);
    let own = data_dir.join("admin.kubeconfig");
    let mut told = own.clone();
    for file in [Some(&own), settings.kubeconfig_out.as_ref()]
        .into_iter()
        .flatten()
    {
        write(file, &text).map_err(|error| {
            let advice = "name a file in a folder that exists and that this user may write to";
            Failure::new("no kubeconfig for the admin", advice).because(error)
        })?;
        told = std::path::absolute(file).unwrap_or_else(|_| file.clone());
    }
    Ok((told, text))
}

fn usable_data_dir(folder: &Path) -> Result<PathBuf, Failure> {
    secret_file::protect_folder(folder, is_data_file).map_err(|error| {
        Failure::new(
            "cannot use the data folder",
            "choose one that this user may write to with --data-dir",
        )
        .because(error)
    })?;
    file_format::claim_data_dir(folder)?;
    // Absolute: what is told of it must hold wherever it is used.
    std::path::absolute(folder).map_err(|error| {
        Failure::new("cannot tell the current folder", "give --data-dir a path from /").because(error)
    })
}
