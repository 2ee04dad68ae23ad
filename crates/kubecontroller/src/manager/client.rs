//! The client for the API server.

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{ManagerError, config::ClusterConfig};

/// Creates a client from a kubeconfig, from the address of the API server, or from the environment: the default kubeconfig
/// or the service account of the pod. Does not connect yet.
pub(super) async fn client(cluster: &ClusterConfig) -> Result<Client, ManagerError> {
    let options = KubeConfigOptions {
        context: cluster.context.clone(),
        ..KubeConfigOptions::default()
    };
    let bad = |error: &dyn std::fmt::Display| ManagerError::Client(error.to_string().into());
    let master = match &cluster.master {
        Some(master) => Some(master.parse::<http::Uri>().map_err(|error| bad(&error))?),
        None => None,
    };
    let mut config = match (&cluster.kubeconfig, &master) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).map_err(|error| bad(&error))?;
            kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(|error| bad(&error))?
        }
        // With only an address, no credentials are sent: those of the default kubeconfig belong to another server.
        (None, Some(master)) => kube::Config::new(master.clone()),
        (None, None) if cluster.context.is_some() => kube::Config::from_kubeconfig(&options)
            .await
            .map_err(|error| bad(&error))?,
        (None, None) => kube::Config::infer().await.map_err(|error| bad(&error))?,
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Client::try_from(config).map_err(|error| bad(&error))
}
