//! Controllers beside the API server, and the server's credentials that they and nodes need.

use std::sync::Arc;

use k3_apiserver::{NodeClient, Server};
use k3_controllers::{CertificateSigner, ClusterConfig, SignCertificateError};
use kubecontroller::manager::{Config, Stop};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{
    certificates::ServerCertificates,
    client_factory::ClientFactory,
    command_error::CommandError,
    controller_manager::{ComponentSelection, ControllerManager},
};

/// Runs controllers and scheduler until `stop`. Among servers that share a store, the elected leader does the work.
pub(super) fn run_controllers(
    server: &Server,
    components: ComponentSelection,
    cluster: ClusterConfig,
    config: Config,
    stop: Stop,
) -> Result<impl Future<Output = ()> + use<>, CommandError> {
    let manager = if components.is_empty() {
        None
    } else {
        let manager = ControllerManager::new(&ClientFactory::InProcess(server), components, cluster, config)?;
        manager.publish_status(server);
        Some(manager)
    };
    Ok(async move {
        if let Some(manager) = manager
            && let Err(error) = manager.run(stop.clone()).await
        {
            tracing::error!(%error, "controllers failed; the API server continues without them");
        }
        stop.stopped().await;
    })
}

/// The client certificate with which the server calls nodes.
pub(super) fn node_client(certificates: &ServerCertificates) -> NodeClient {
    NodeClient {
        certificate: certificates.kubelet_client.certificate.clone().into_bytes(),
        key: certificates.kubelet_client.key.clone().into_bytes(),
        authorities: certificates.authority.clone().into_bytes(),
    }
}

/// Signs approved requests with the key of the certificate authority.
pub(super) fn certificate_signer(certificates: &ServerCertificates) -> CertificateSigner {
    let random = || {
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled
            .map(|()| bytes)
            .map_err(|_| SignCertificateError::NoRandomBytes)
    };
    CertificateSigner::of_authority(Arc::clone(certificates.issuer.inner()), random)
}
