//! The life of the server: from the flags to the last connection.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use k3_apiserver::{AuditConfig, Authentication, Config, NodeClient, Server, kubernetes_address};
use k3_controllers::{CertificateSigner, Cluster, TokenSigner};
use k3_simulator::Rules;
use k3_storage::{Compactor, OpenError, StorageConfig, Store, SystemClock};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::{net::TcpListener, sync::watch};

use super::{
    StartFlags,
    access::Plugin,
    address,
    flags::PartFlags,
    node::{self, Api},
};
use crate::{
    certificates::{CertificateError, Certificates, Names},
    control::{self, Chosen, Control},
    data_dir::default_data_dir,
    door::Door,
    failure::Failure,
    kubeconfig, limits, log, secret_file,
    signals::Signals,
    tls::Tls,
};
use kubecontroller::manager::Stop;

/// How much history is kept for watches that begin in the past, as upstream keeps it.
const HISTORY: Duration = Duration::from_mins(5);

/// How long controllers may take to finish what they have begun.
const GRACE: Duration = Duration::from_secs(5);

/// What the flags ask for, read and checked.
struct Asked {
    authentication: Authentication,
    audit: Option<AuditConfig>,
    chosen: Chosen,
}

/// Runs a server until it is told to stop.
pub(crate) fn run(flags: StartFlags) -> Result<(), Failure> {
    log::begin(&flags.log)?;
    let data_dir = match &flags.data_dir {
        Some(folder) => folder.clone(),
        None => default_data_dir()?,
    };
    let storage = flags.storage.config(&data_dir)?;
    let authentication = flags.access.authentication()?;
    let audit = flags.audit.config()?;
    let chosen = chosen(&flags.parts)?;
    limits::raise_open_files();
    let data_dir = usable_data_dir(&data_dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                "cannot start threads",
                "see `ulimit -u` and the memory of the machine",
            )
            .because(error)
        })?;
    let asked = Asked {
        authentication,
        audit,
        chosen,
    };
    runtime.block_on(live(flags, &data_dir, storage, asked))
}

/// Everything that can be stopped by a signal.
async fn live(
    flags: StartFlags,
    data_dir: &Path,
    storage: StorageConfig,
    asked: Asked,
) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|error| {
        Failure::new("cannot listen for signals", "this should not happen; try again").because(error)
    })?;
    let listener = listen(SocketAddr::new(flags.network.bind, flags.network.secure_port)).await?;
    let plain = match flags.network.insecure_port {
        0 => None,
        port => Some(listen_plain(port).await?),
    };
    let store = tokio::select! {
        opened = k3_storage::open(storage) => opened.map_err(|error| cannot_open(&flags, error))?,
        name = signals.next() => {
            tracing::info!("{name}: stopped before the store was open");
            return Ok(());
        }
    };
    let outcome = serve(
        flags,
        data_dir,
        (listener, plain),
        store.clone(),
        asked,
        &mut signals,
    )
    .await;
    store.close().await;
    outcome
}

async fn serve(
    flags: StartFlags,
    data_dir: &Path,
    (listener, plain): (TcpListener, Option<TcpListener>),
    store: Arc<dyn Store>,
    asked: Asked,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let listening = listener.local_addr().map_err(|error| {
        Failure::new("cannot tell the port", "this should not happen; try again").because(error)
    })?;
    let advertise = flags
        .network
        .advertise_address
        .unwrap_or_else(|| address::advertised(flags.network.bind));
    let service_range = flags.network.service_cluster_ip_range;
    let mut names = Names::new([flags.network.bind, advertise, kubernetes_address(&service_range)]);
    names.extend(address::host_name());
    names.extend(flags.network.tls_san);
    let certificates =
        Certificates::ensure(&data_dir.join("tls"), &names, &SystemClock).map_err(no_certificates)?;
    let tls = Tls::new(&certificates).map_err(no_certificates)?;

    let _compactor = Compactor::start(store.clone(), HISTORY);
    let Asked {
        mut authentication,
        audit,
        chosen,
    } = asked;
    authentication.certificates = Some(tls.clients);
    let config = Config {
        authentication,
        service_range,
        issuer: flags.access.issuer(),
        unrestricted_update: flags.access.unrestricted_update,
        signing_key: certificates.signing_key.clone(),
        advertise: (advertise, listening.port()),
        nodes: Some(node_client(&certificates)),
        usage: !flags.node.no_node,
        guard_owners: flags
            .access
            .enable_admission_plugins
            .contains(&Plugin::OwnerReferencesPermissionEnforcement),
        limits: flags.limits.limits(),
        audit,
    };
    let server = tokio::select! {
        started = Server::start(config, store) => started.map_err(|error| {
            Failure::new("cannot start the API server", "see the cause; the store can be looked at with its own tools").because(error)
        })?,
        name = signals.next() => {
            tracing::info!("{name}: stopped before the server was ready");
            return Ok(());
        }
    };

    server.add_setting(log::LEVEL_PATH, log::current, log::change);

    // Without nodes of our own there is no folder to make volumes of.
    let has_nodes = !flags.node.no_node || chosen.simulates();
    let local_volumes = has_nodes.then(|| data_dir.join("volumes").display().to_string());
    let stop_controllers = Stop::new();
    let cluster = Cluster {
        authority: certificates.authority.clone(),
        local_volumes,
        certificates: Some(certificate_signer(&certificates)),
        tokens: Some(TokenSigner::new(server.token_signer())),
        ..Cluster::default()
    };
    let door = Door::Inside(&server);
    let api = Api {
        address: advertise,
        port: listening.port(),
        authority: &certificates.authority,
    };
    let node = node::run(&flags.node, &door, data_dir, &api, stop_controllers.clone())?;
    let is_shared = flags.storage.storage.is_shared();
    let controlling = control(&server, chosen, cluster, is_shared, stop_controllers.clone())?;

    let text = kubeconfig::text(listening, &certificates.authority, &certificates.admin);
    let mut path = data_dir.join("admin.kubeconfig");
    write_kubeconfig(&path, &text)?;
    if let Some(file) = flags.access.kubeconfig_out {
        write_kubeconfig(&file, &text)?;
        path = std::path::absolute(&file).unwrap_or(file);
    }
    tracing::info!(
        storage = flags.storage.storage.name(),
        "serving https://{listening}"
    );
    if let Some(address) = plain.as_ref().and_then(|plain| plain.local_addr().ok()) {
        tracing::warn!("serving http://{address} too, which is not encrypted, for this machine alone");
    }
    println!("export KUBECONFIG={}", quoted(&path));

    let (stop, stopped) = watch::channel(());
    let until = |mut stopped: watch::Receiver<()>| async move {
        // A stop that is dropped is a stop.
        let _ = stopped.changed().await;
    };
    let for_pods = if flags.node.no_node {
        None
    } else {
        listen_for_pods(advertise, listening).await
    };
    let serving = async {
        let secure = server.serve(listener, Arc::clone(&tls.config), until(stopped.clone()));
        let plainly = async {
            if let Some(plain) = plain {
                server.serve_plain(plain, until(stopped.clone())).await;
            }
        };
        let for_pods = async {
            if let Some(listener) = for_pods {
                server
                    .serve(listener, Arc::clone(&tls.config), until(stopped.clone()))
                    .await;
            }
        };
        tokio::join!(secure, plainly, for_pods);
    };
    let controlling = async {
        tokio::join!(controlling, node);
    };
    until_stopped(serving, controlling, (stop_controllers, stop), signals).await
}

/// What the flags ask for.
fn chosen(flags: &PartFlags) -> Result<Chosen, Failure> {
    let rules = match &flags.simulation_rules {
        None => Rules::default(),
        Some(file) => Rules::load(file).map_err(|error| {
            let what = format!("--simulation-rules {}", file.display());
            Failure::usage(what, "docs/simulation.md tells what can be said there").because(error)
        })?,
    };
    Ok(control::listed(&flags.controllers)?.with_simulated(flags.simulated_nodes, rules))
}

/// Runs what was chosen until it is told to stop, and does not end before that. Where several servers share a store, one of
/// them is elected to do the work.
fn control(
    server: &Server,
    chosen: Chosen,
    cluster: Cluster,
    is_shared: bool,
    stop: Stop,
) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let mut config = kubecontroller::manager::Config::default();
    config.leader.elect = is_shared;
    let control = if chosen.is_nothing() {
        None
    } else {
        let control = Control::new(&Door::Inside(server), chosen, cluster, config)?;
        control.tell(server);
        Some(control)
    };
    Ok(async move {
        if let Some(control) = control
            && let Err(error) = control.run(stop.clone()).await
        {
            tracing::error!(%error, "the controllers ended; the API server goes on without them");
        }
        stop.stopped().await;
    })
}

/// Serves until a signal comes; then ends what runs, first the controllers and then the connections.
async fn until_stopped(
    serving: impl Future<Output = ()>,
    controlling: impl Future<Output = ()>,
    (stop_controllers, stop_serving): (Stop, watch::Sender<()>),
    signals: &mut Signals,
) -> Result<(), Failure> {
    let (mut serving, mut controlling) = (pin!(serving), pin!(controlling));
    let by_itself = || {
        Err(Failure::new(
            "the server ended by itself",
            "see the log above, and start it again",
        ))
    };
    let at_once = |name: &str| {
        Err(Failure::new(
            format!("{name}: stopped at once"),
            "requests that were under way have been cut off",
        ))
    };
    // The controllers end when they are told to, which they have not been.
    tokio::select! {
        () = &mut serving => return by_itself(),
        () = &mut controlling => {}
        name = signals.next() => tracing::info!("{name}: stopping; the same again stops at once"),
    }
    stop_controllers.stop(GRACE);
    tokio::select! {
        () = &mut serving => return by_itself(),
        () = &mut controlling => {}
        name = signals.next() => return at_once(name),
    }
    drop(stop_serving);
    tokio::select! {
        () = serving => {
            tracing::info!("stopped");
            Ok(())
        }
        name = signals.next() => at_once(name),
    }
}

/// Who the server is to nodes.
fn node_client(certificates: &Certificates) -> NodeClient {
    NodeClient {
        certificate: certificates.to_nodes.certificate.clone().into_bytes(),
        key: certificates.to_nodes.key.clone().into_bytes(),
        authorities: certificates.authority.clone().into_bytes(),
    }
}

/// Signs requests that were approved with the key of the authority.
fn certificate_signer(certificates: &Certificates) -> CertificateSigner {
    let issuer = Arc::clone(&certificates.issuer);
    let random = || {
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map(|()| bytes).map_err(|_| "no random bytes".to_owned())
    };
    let sign = move |bytes: &[u8]| issuer.sign_bytes(bytes).map_err(|error| error.to_string());
    CertificateSigner::of_authority(certificates.issuer.pem().to_owned(), random, sign)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program uses the port: stop it, or choose another with --secure-port (0 takes a free one)"
            }
            io::ErrorKind::AddrNotAvailable => {
                "--bind must be an address of this machine; 0.0.0.0 or :: listens on all of them"
            }
            io::ErrorKind::PermissionDenied => "ports below 1024 are root's: choose another with --secure-port",
            _ => "choose another address with --bind or another port with --secure-port",
        };
        Failure::new(format!("cannot listen on {address}"), advice).because(error)
    })
}

/// A second listener, at the address that pods know, where the first one is for this machine alone. Without it pods run all the
/// same, but cannot ask the API.
async fn listen_for_pods(advertise: IpAddr, listening: SocketAddr) -> Option<TcpListener> {
    if !listening.ip().is_loopback() || advertise.is_loopback() {
        return None;
    }
    let address = SocketAddr::new(advertise, listening.port());
    match TcpListener::bind(address).await {
        Ok(listener) => {
            tracing::info!("serving https://{address} too, for pods of this node");
            Some(listener)
        }
        Err(error) => {
            tracing::warn!(%error, "cannot listen at {address}: pods of this node do not reach the API");
            None
        }
    }
}

/// A listener that only this machine can reach.
async fn listen_plain(port: u16) -> Result<TcpListener, Failure> {
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    TcpListener::bind(address).await.map_err(|error| {
        let advice = "choose another port with --insecure-port, or 0 for none";
        Failure::new(format!("cannot listen on {address}"), advice).because(error)
    })
}

fn cannot_open(flags: &StartFlags, error: OpenError) -> Failure {
    let name = flags.storage.storage.name();
    if matches!(error, OpenError::Setting { .. }) {
        let what = format!("a setting of --storage {name} makes no sense");
        return Failure::usage(what, format!("`k3 start --help` tells the flags --{name}-..."))
            .because(error);
    }
    Failure::new(
        format!("cannot open the store (--storage {name})"),
        "see that it is reachable and free, or choose another with --storage or --data-dir",
    )
    .because(error)
}

fn no_certificates(error: CertificateError) -> Failure {
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

fn write_kubeconfig(path: &Path, text: &str) -> Result<(), Failure> {
    secret_file::write(path, text).map_err(|error| {
        Failure::new(
            "no kubeconfig for the admin",
            "name a file in a folder that exists and that this user may write to",
        )
        .because(error)
    })
}

fn usable_data_dir(folder: &Path) -> Result<PathBuf, Failure> {
    secret_file::make_folder(folder).map_err(|error| {
        Failure::new(
            "cannot use the data folder",
            "choose one that this user may write to with --data-dir",
        )
        .because(error)
    })?;
    // Absolute: the line that is printed must hold wherever it is used.
    std::path::absolute(folder).map_err(|error| {
        Failure::new("cannot tell the current folder", "give --data-dir a path from /").because(error)
    })
}

/// The path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted(Path::new("/a/b-1.c")), "/a/b-1.c");
        assert_eq!(quoted(Path::new("/a b")), "'/a b'");
        assert_eq!(quoted(Path::new("/it's")), r"'/it'\''s'");
    }
}
