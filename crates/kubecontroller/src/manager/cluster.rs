//! The way to the cluster.

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{ManagerError, config::ClusterConfig};

/// A client as the settings say: by kubeconfig, by address, or as the surroundings suggest. Connects to nothing yet.
pub(super) async fn client(told: &ClusterConfig) -> Result<Client, ManagerError> {
    let options = KubeConfigOptions {
        context: told.context.clone(),
        ..KubeConfigOptions::default()
    };
    let bad = |error: &dyn std::fmt::Display| ManagerError::Client(error.to_string().into());
    let master = match &told.master {
        Some(master) => Some(master.parse::<http::Uri>().map_err(|error| bad(&error))?),
        None => None,
    };
    let mut config = match (&told.kubeconfig, &master) {
        (Some(path), _) => {
            let file = Kubeconfig::read_from(path).map_err(|error| bad(&error))?;
            kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(|error| bad(&error))?
        }
        // Only an address: nobody's credentials are sent there.
        (None, Some(master)) => kube::Config::new(master.clone()),
        (None, None) if told.context.is_some() => kube::Config::from_kubeconfig(&options)
            .await
            .map_err(|error| bad(&error))?,
        (None, None) => kube::Config::infer().await.map_err(|error| bad(&error))?,
    };
    if let Some(master) = master {
        config.cluster_url = master;
    }
    Client::try_from(config).map_err(|error| bad(&error))
}
