//! Looks for the runtime that was chosen, or for any, as `k3 doctor` does.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::{Config, link::Detect};
use crate::runtime::{
    Owner, Runtime,
    detect::{UnknownRuntime, Wanted, detect_with_network, socket_of},
    network::BridgeNetwork,
};

/// How long the agent waits for the networks of the node's pods, which a controller assigns.
const NETWORK_WAIT: Duration = Duration::from_secs(5);
/// The network of pods where no controller assigns one.
const NETWORK: &str = "10.88.0.0/16";

/// Looks as an agent is set up.
pub(super) fn detect(config: &Arc<Config>, networks: &watch::Sender<Vec<String>>) -> Detect {
    let config = Arc::clone(config);
    let networks = networks.clone();
    Box::new(move || {
        let config = Arc::clone(&config);
        let networks = networks.subscribe();
        Box::pin(async move { search(&config, &networks).await })
    })
}

async fn search(
    config: &Config,
    networks: &watch::Receiver<Vec<String>>,
) -> Result<Arc<dyn Runtime>, String> {
    let choice = config.runtime.as_deref().unwrap_or_default().parse();
    let socket = config.runtime_endpoint.as_deref().map(socket_of).transpose();
    let wanted = Wanted {
        choice: choice.map_err(|error: UnknownRuntime| error.to_string())?,
        socket: socket.map_err(|error| error.to_string())?,
    };
    let owner = Owner {
        node: config.node_name.clone(),
    };
    let network = || -> std::pin::Pin<Box<dyn Future<Output = Option<BridgeNetwork>> + Send + '_>> {
        Box::pin(async { Some(pod_network(config, networks.clone()).await) })
    };
    detect_with_network(&wanted, &owner, &network)
        .await
        .map_err(|error| error.to_string())
}

/// The network of the node's pods: as configured, else as the controller assigns it.
async fn pod_network(config: &Config, mut networks: watch::Receiver<Vec<String>>) -> BridgeNetwork {
    let mut ranges = config.pod_networks.clone();
    if ranges.is_empty() {
        let assigned = timeout(NETWORK_WAIT, networks.wait_for(|assigned| !assigned.is_empty())).await;
        ranges = match assigned {
            Ok(Ok(assigned)) => assigned.clone(),
            _ => vec![NETWORK.to_owned()],
        };
    }
    BridgeNetwork::new(&config.node_name, ranges)
}
