//! A node agent in this process.

use std::{path::Path, pin::pin, time::Duration};

use k3_node::{
    agent::{AgentConfig, NodeAgent},
    runtime::{
        ContainerOwner, RuntimeError,
        detect::{
            DetectError, InvalidEndpointError, RuntimeChoice, RuntimeSelection, UnknownRuntimeError, detect,
            parse_endpoint,
        },
    },
};
use kube::Client;
use kubecontroller::manager::Stop;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::NodeSettings;

/// Pause before a failed agent is restarted.
const PAUSE: Duration = Duration::from_secs(10);

/// Grace period of an agent that is restarted with a new authority.
const GRACE: Duration = Duration::from_secs(5);

/// Timeout of the first request to a container runtime.
const DETECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The address of the API server for nodes and pods.
pub(crate) struct ApiEndpoint<'a> {
    /// An address or name of the server that pods can reach.
    pub(crate) address: String,
    pub(crate) port: u16,
    /// The certificate authority of the server, in PEM.
    pub(crate) authority: &'a str,
}

/// The configuration of a node agent whose state is in the directory `node` of `data_dir`.
pub(crate) fn config(settings: NodeSettings, data_dir: &Path, api: &ApiEndpoint<'_>) -> AgentConfig {
    let mut config = AgentConfig {
        runtime: settings.runtime,
        runtime_endpoint: settings.runtime_endpoint,
        port: settings.port,
        api_address: Some((api.address.clone(), api.port)),
        authority: api.authority.to_owned(),
        static_pods: settings.static_pods,
        start_limit: settings.start_limit,
        stop_limit: settings.stop_limit,
        seccomp_default: settings.seccomp_default,
        log_dir: data_dir.join("node/logs"),
        ..AgentConfig::new(&settings.name, data_dir.join("node"))
    };
    config.eviction.thresholds = settings.eviction;
    config.image_gc.high_threshold_percent = settings.images_high;
    config.image_gc.low_threshold_percent = config.image_gc.low_threshold_percent.min(settings.images_high);
    config
}

/// Why there is no container runtime for the node.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRuntimeError {
    #[error(transparent)]
    Name(#[from] UnknownRuntimeError),
    #[error(transparent)]
    Endpoint(#[from] InvalidEndpointError),
    #[error(transparent)]
    Detect(#[from] DetectError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("the container runtime does not respond; check its log")]
    Timeout,
}

/// Returns name and version of the node's container runtime, or why there is none.
pub(super) async fn detect_runtime(settings: &NodeSettings) -> Result<String, NoRuntimeError> {
    let endpoint = settings.runtime_endpoint.as_deref();
    let wanted = RuntimeSelection {
        choice: settings
            .runtime
            .as_deref()
            .map_or(Ok(RuntimeChoice::Auto), str::parse)?,
        socket: endpoint.map(parse_endpoint).transpose()?,
    };
    let owner = ContainerOwner::new(settings.name.as_str(), "");
    let version = async {
        let runtime = detect(&wanted, &owner).await?;
        let version = runtime.version().await?;
        Ok(format!("{} {}", version.name, version.version))
    };
    timeout(DETECT_TIMEOUT, version)
        .await
        .unwrap_or(Err(NoRuntimeError::Timeout))
}

/// Runs a node, and restarts its agent whenever the certificate authority changes. Pods keep running.
pub(crate) async fn run_renewed(
    mut config: AgentConfig,
    client: Client,
    stop: Stop,
    mut authority: watch::Receiver<String>,
) {
    while !stop.is_stopped() {
        config.authority.clone_from(&authority.borrow_and_update());
        let until = stop.child();
        let agent = run(config.clone(), client.clone(), until.clone());
        let changed = async {
            // A closed channel is not a change.
            if authority.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            until.stop(GRACE);
        };
        let mut agent = pin!(agent);
        let mut changed = pin!(changed);
        tokio::select! {
            () = &mut agent => {}
            () = &mut changed => agent.await,
        }
    }
}

/// Runs a node until `stop`. An agent that fails is restarted: the API server keeps running without it.
async fn run(config: AgentConfig, client: Client, stop: Stop) {
    let agent = NodeAgent::new(config, client);
    loop {
        let Err(error) = agent.run(stop.clone()).await else {
            break;
        };
        tracing::error!(%error, "node agent failed; it is restarted after a pause");
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = stop.stopped() => break,
        }
    }
    stop.stopped().await;
}
