//! Finds the container runtime: the configured one, or the first one that responds.

use std::{pin::Pin, sync::Arc, time::Duration};

use kube::Client;
use tokio::{sync::watch, time::timeout};

use super::{
    AgentConfig,
    cluster_uid::{self, FindUidError},
    runtime_monitor::DetectRuntime,
};
use crate::runtime::{
    AdoptedPods, ContainerOwner, Runtime,
    cni::CniBridge,
    detect::{
        DetectError, InvalidEndpointError, RuntimeSelection, UnknownRuntimeError, detect_with_network,
        parse_endpoint,
    },
};

/// How long to wait for `spec.podCIDRs`, which the node IPAM controller assigns.
const POD_CIDR_TIMEOUT: Duration = Duration::from_secs(5);
/// Pod network if no controller assigns one.
const DEFAULT_POD_NETWORK: &str = "10.88.0.0/16";

/// Why the agent has no runtime. The message is that of the Ready condition.
#[derive(Debug, thiserror::Error)]
pub(super) enum DetectRuntimeError {
    #[error(transparent)]
    ClusterUid(#[from] FindUidError),
    #[error(transparent)]
    UnknownRuntime(#[from] UnknownRuntimeError),
    #[error(transparent)]
    InvalidEndpoint(#[from] InvalidEndpointError),
    #[error(transparent)]
    Detect(#[from] DetectError),
}

/// A detector for the configured runtime. `adopted` may be filled later.
pub(super) fn runtime_detector(
    config: &Arc<AgentConfig>,
    client: &Client,
    networks: &watch::Sender<Vec<String>>,
    adopted: &AdoptedPods,
) -> DetectRuntime {
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
            let owner = ContainerOwner {
                node: config.node_name.clone(),
                cluster: cluster_uid::find_uid(&config.data_dir, &client).await?,
                adopted,
            };
            let runtime = detect_runtime(&config, &owner, &networks).await?;
            report_other_clusters(&*runtime, &owner).await;
            Ok(runtime)
        })
    })
}

/// Logs the number of containers of other clusters, which this agent ignores.
async fn report_other_clusters(runtime: &dyn Runtime, owner: &ContainerOwner) {
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
                "ignoring containers of other clusters"
            );
        }
        Err(error) => tracing::debug!(%error, "failed to count containers of other clusters"),
    }
}

async fn detect_runtime(
    config: &AgentConfig,
    owner: &ContainerOwner,
    networks: &watch::Receiver<Vec<String>>,
) -> Result<Arc<dyn Runtime>, DetectRuntimeError> {
    let choice = config.runtime.as_deref().unwrap_or_default().parse()?;
    let socket = config
        .runtime_endpoint
        .as_deref()
        .map(parse_endpoint)
        .transpose()?;
    let selection = RuntimeSelection { choice, socket };
    let network = || -> Pin<Box<dyn Future<Output = Option<CniBridge>> + Send + '_>> {
        Box::pin(async { Some(pod_network(config, owner, networks.clone()).await) })
    };
    Ok(detect_with_network(&selection, owner, &network).await?)
}

/// The pod network: as configured, else `spec.podCIDRs` of the Node.
async fn pod_network(
    config: &AgentConfig,
    owner: &ContainerOwner,
    mut networks: watch::Receiver<Vec<String>>,
) -> CniBridge {
    let mut ranges = config.pod_networks.clone();
    if ranges.is_empty() {
        let assigned = timeout(
            POD_CIDR_TIMEOUT,
            networks.wait_for(|assigned| !assigned.is_empty()),
        )
        .await;
        ranges = match assigned {
            Ok(Ok(assigned)) => assigned.clone(),
            _ => vec![DEFAULT_POD_NETWORK.to_owned()],
        };
    }
    CniBridge::new(&config.node_name, owner.cluster.clone(), ranges)
}
