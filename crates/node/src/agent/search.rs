//! Looks for the runtime that was chosen, or for any, as `k3 doctor` does.

use std::{pin::Pin, sync::Arc, time::Duration};

use kube::Client;
use tokio::{sync::watch, time::timeout};

use super::{Config, cluster, link::Detect};
use crate::runtime::{
    AdoptedPods, Owner, Runtime,
    detect::{UnknownRuntime, Wanted, detect_with_network, socket_of},
    network::BridgeNetwork,
};

/// How long the agent waits for the networks of the node's pods, which a controller assigns.
const NETWORK_WAIT: Duration = Duration::from_secs(5);
/// The network of pods where no controller assigns one.
const NETWORK: &str = "10.88.0.0/16";

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
            let runtime = search(&config, &owner, &networks).await?;
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
    networks: &watch::Receiver<Vec<String>>,
) -> Result<Arc<dyn Runtime>, String> {
    let choice = config.runtime.as_deref().unwrap_or_default().parse();
    let socket = config.runtime_endpoint.as_deref().map(socket_of).transpose();
    let wanted = Wanted {
        choice: choice.map_err(|error: UnknownRuntime| error.to_string())?,
        socket: socket.map_err(|error| error.to_string())?,
    };
    let network = || -> Pin<Box<dyn Future<Output = Option<BridgeNetwork>> + Send + '_>> {
        Box::pin(async { Some(pod_network(config, owner, networks.clone()).await) })
    };
    detect_with_network(&wanted, owner, &network)
        .await
        .map_err(|error| error.to_string())
}

/// The network of the node's pods: as configured, else as the controller assigns it.
async fn pod_network(
    config: &Config,
    owner: &Owner,
    mut networks: watch::Receiver<Vec<String>>,
) -> BridgeNetwork {
    let mut ranges = config.pod_networks.clone();
    if ranges.is_empty() {
        let assigned = timeout(NETWORK_WAIT, networks.wait_for(|assigned| !assigned.is_empty())).await;
        ranges = match assigned {
            Ok(Ok(assigned)) => assigned.clone(),
            _ => vec![NETWORK.to_owned()],
        };
    }
    BridgeNetwork::new(&config.node_name, owner.cluster.clone(), ranges)
}
