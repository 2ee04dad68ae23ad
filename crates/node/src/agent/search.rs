//! Looks for the runtime that was chosen, or for any.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::{Config, link::Detect};
use crate::runtime::{Owner, Runtime, RuntimeError, cri::Cri, engine::Engine, network::BridgeNetwork};

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

/// Looks as an agent is set up.
pub(super) fn detect(config: &Arc<Config>, networks: &watch::Sender<Vec<String>>) -> Detect {
    let (config, networks) = (Arc::clone(config), networks.clone());
    Box::new(move || {
        let (config, networks) = (Arc::clone(&config), networks.subscribe());
        Box::pin(async move { search(&config, networks).await })
    })
}

async fn search(config: &Config, networks: watch::Receiver<Vec<String>>) -> Result<Arc<dyn Runtime>, String> {
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
            match connect(name, &socket, config, networks.clone()).await {
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
    mut networks: watch::Receiver<Vec<String>>,
) -> Result<Arc<dyn Runtime>, String> {
    let owner = Owner {
        node: config.node_name.clone(),
    };
    if ["docker", "podman"].contains(&name) {
        return Ok(Arc::new(answered(socket, Engine::connect(socket, owner)).await?));
    }
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
    let network = BridgeNetwork::new(&config.node_name, ranges);
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
