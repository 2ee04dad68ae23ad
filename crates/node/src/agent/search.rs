//! Looks for the runtime that was chosen, or for any.

use std::{path::PathBuf, sync::Arc, time::Duration};

use kube::Client;
use tokio::{sync::watch, time::timeout};

use super::{Config, cluster, link::Detect};
use crate::runtime::{
    AdoptedPods, Owner, Runtime, RuntimeError, cri::Cri, engine::Engine, network::BridgeNetwork,
};

/// How long each may take to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// How long it is waited for the networks of the node's pods, which a controller gives it.
const PATIENCE: Duration = Duration::from_secs(5);
/// The network of pods where nobody gives the node one.
const NETWORK: &str = "10.88.0.0/16";

/// The runtimes in the order in which they are looked for, and where each usually listens.
const KNOWN: [(&str, &[&str]); 4] = [
    ("docker", &["/var/run/docker.sock"]),
    ("podman", &["/run/podman/podman.sock"]),
    ("containerd", &["/run/containerd/containerd.sock"]),
    ("cri-o", &["/var/run/crio/crio.sock"]),
];

/// Looks as an agent is set up. The pods whose containers it adopts may be known later.
pub(super) fn detect(
    config: &Arc<Config>,
    client: &Client,
    networks: &watch::Sender<Vec<String>>,
    adopted: &AdoptedPods,
) -> Detect {
    let config = Arc::clone(config);
    let client = client.clone();
    let networks = networks.clone();
    let adopted = adopted.clone();
    Box::new(move || {
        let config = Arc::clone(&config);
        let client = client.clone();
        let networks = networks.subscribe();
        let adopted = adopted.clone();
        Box::pin(async move {
            let owner = Owner {
                node: config.node_name.clone(),
                cluster: cluster::find_uid(&config.data_dir, &client).await?,
                adopted,
            };
            let runtime = search(&config, &owner, networks).await?;
            report_other_clusters(&*runtime, &owner).await;
            Ok(runtime)
        })
    })
}

/// Reports what is of other clusters, and is left alone.
async fn report_other_clusters(runtime: &dyn Runtime, owner: &Owner) {
    match runtime.other_clusters().await {
        Ok(others) if others.is_empty() => {}
        Ok(others) => {
            let containers: usize = others.values().sum();
            let clusters: Vec<&str> = others
                .keys()
                .map(|uid| if uid.is_empty() { "unknown" } else { uid })
                .collect();
            tracing::info!(
                containers,
                clusters = clusters.join(","),
                cluster = owner.cluster,
                "found containers of other clusters; they are left alone"
            );
        }
        Err(error) => tracing::debug!(%error, "cannot count containers of other clusters"),
    }
}

async fn search(
    config: &Config,
    owner: &Owner,
    networks: watch::Receiver<Vec<String>>,
) -> Result<Arc<dyn Runtime>, String> {
    let mut problems = Vec::new();
    for (name, sockets) in KNOWN {
        if config.runtime.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let given = config.runtime_endpoint.as_deref();
        let given = given.map(|given| PathBuf::from(given.strip_prefix("unix://").unwrap_or(given)));
        let sockets = given.map_or_else(
            || sockets.iter().map(PathBuf::from).collect(),
            |given| vec![given],
        );
        for socket in sockets {
            match connect(name, &socket, config, owner.clone(), networks.clone()).await {
                Ok(runtime) => return Ok(runtime),
                Err(problem) => problems.push(format!("{name}: {problem}")),
            }
        }
    }
    Err(format!("no container runtime was found: {}", problems.join("; ")))
}

async fn connect(
    name: &str,
    socket: &std::path::Path,
    config: &Config,
    owner: Owner,
    mut networks: watch::Receiver<Vec<String>>,
) -> Result<Arc<dyn Runtime>, String> {
    if ["docker", "podman"].contains(&name) {
        return Ok(Arc::new(answered(socket, Engine::connect(socket, owner)).await?));
    }
    let cluster = owner.cluster.clone();
    let runtime = Cri::connect(socket, owner).map_err(|error| error.to_string())?;
    answered(socket, runtime.version()).await?;
    let mut ranges = config.pod_networks.clone();
    if ranges.is_empty() {
        let given = timeout(PATIENCE, networks.wait_for(|given| !given.is_empty())).await;
        ranges = match given {
            Ok(Ok(given)) => given.clone(),
            _ => vec![NETWORK.to_owned()],
        };
    }
    let network = BridgeNetwork::new(&config.node_name, cluster, ranges);
    Ok(Arc::new(runtime.with_network(network)))
}

/// What somebody answered, or why not.
async fn answered<T>(
    socket: &std::path::Path,
    question: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, String> {
    match timeout(LIMIT, question).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "no answer at {} within {} s",
            socket.display(),
            LIMIT.as_secs()
        )),
    }
}
