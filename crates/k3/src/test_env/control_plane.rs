//! The control plane of a test cluster.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use k3_simulator::Rules;
use k3_storage::{
    backend::StorageConfig,
    file::{Durability, FileOptions},
    memory::MemoryOptions,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{TestEnvBuilder, TestStorage, definitions};
use crate::{
    client_factory::ClientFactory,
    command_error::CommandError,
    controller_manager,
    server::{ControlPlane, ControlPlaneSettings, KeySource},
};

/// The user that prepares the cluster.
const USER: &str = "system:k3-test-env";
const AGENT: &str = concat!("k3-test-env/", env!("CARGO_PKG_VERSION"));
/// The controller that creates the service accounts of namespaces.
const ACCOUNTS: &str = "serviceaccount-controller";
/// Timeout for the service account of the namespace `default`.
const TIMEOUT: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(2);

/// How clients connect to the cluster.
pub(super) struct EnvironmentConnection {
    pub(super) config: Config,
    pub(super) kubeconfig: PathBuf,
}

/// Runs a cluster until the sender of `stopped` is dropped, and reports when it is ready, or why it failed.
pub(super) async fn run(
    builder: &TestEnvBuilder,
    directory: &Path,
    ready: oneshot::Sender<Result<EnvironmentConnection, CommandError>>,
    stopped: oneshot::Receiver<()>,
) {
    let work = async {
        match start(builder, directory).await {
            Ok((mut plane, connection)) => {
                // A receiver that stopped waiting has dropped the sender of `stopped` too.
                let _ = ready.send(Ok(connection));
                let failure = plane.wait_for_failure().await;
                tracing::error!("{failure}");
            }
            Err(failure) => drop(ready.send(Err(failure))),
        }
    };
    tokio::select! {
        () = work => {}
        // The data is discarded, so nothing needs an orderly stop.
        _ = stopped => {}
    }
}

async fn start(
    builder: &TestEnvBuilder,
    directory: &Path,
) -> Result<(ControlPlane, EnvironmentConnection), CommandError> {
    let definitions = definitions::read(&builder.definitions)?;
    let storage: Box<dyn StorageConfig> = match builder.storage {
        TestStorage::Memory => Box::new(MemoryOptions),
        TestStorage::File => Box::new(FileOptions {
            durability: Durability::Relaxed,
            ..FileOptions::new(directory.join("objects"))
        }),
    };
    let components = controller_manager::parse_controllers(&builder.controllers)?
        .with_simulated(builder.simulated_nodes, Rules::default());
    let has_accounts = components.has(ACCOUNTS);
    let plane = ControlPlane::start(ControlPlaneSettings {
        keys: KeySource::Generated,
        components,
        ..ControlPlaneSettings::new(directory.to_owned(), storage)
    })
    .await?;
    let client = ClientFactory::InProcess(plane.server()).master(USER, AGENT)?;
    definitions::install(&client, definitions).await?;
    if has_accounts {
        let waited = timeout(TIMEOUT, wait_for_default_service_account(client)).await;
        waited.unwrap_or_else(|_| {
            let what = format!("the namespace default has no service account after {TIMEOUT:?}");
            Err(CommandError::new(what, "check the log with --log-level debug"))
        })?;
    }
    let (file, text) = plane.kubeconfig();
    let kubeconfig = file.to_owned();
    let config = connection_config(text).await?;
    Ok((plane, EnvironmentConnection { config, kubeconfig }))
}

/// Waits until pods can be created in the namespace `default`.
async fn wait_for_default_service_account(client: Client) -> Result<(), CommandError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    loop {
        let found = accounts.get_metadata_opt("default").await.map_err(|error| {
            CommandError::new(
                "cannot read the service account of the namespace default",
                "see the log",
            )
            .caused_by(error)
        })?;
        if found.is_some() {
            return Ok(());
        }
        sleep(PAUSE).await;
    }
}

async fn connection_config(kubeconfig: &str) -> Result<Config, CommandError> {
    let unusable = |error: Box<dyn std::error::Error + Send + Sync>| {
        CommandError::new(
            "cannot use the kubeconfig of the cluster",
            "this should not happen; try again",
        )
        .caused_by(error)
    };
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| unusable(error.into()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| unusable(error.into()))?;
    // One client is created here, so that an invalid configuration fails at start.
    Client::try_from(config.clone()).map_err(|error| unusable(error.into()))?;
    Ok(config)
}
