//! What runs beside the API server, and what it needs of the server's secrets.

use std::sync::Arc;

use k3_apiserver::{NodeClient, Server};
use k3_controllers::{CertificateSigner, Cluster};
use kubecontroller::manager::{Config, Stop};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{
    certificates::Certificates,
    controller_manager::{ComponentSelection, ControllerManager},
    client_factory::ClientFactory,
    failure::Failure,
};

/// Runs what was components until it is told to stop, and does not end before that. Where several servers share a store, one
/// of them is elected to do the work.
pub(super) fn control(
    server: &Server,
    components: ComponentSelection,
    cluster: Cluster,
    config: Config,
    stop: Stop,
) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let manager = if components.is_empty() {
        None
    } else {
        let manager = ControllerManager::new(&ClientFactory::InProcess(server), components, cluster, config)?;
        manager.publish_status(server);
        Some(manager)
    };
    Ok(async move {
        if let Some(manager) = control
            && let Err(error) = manager.run(stop.clone()).await
        {
            tracing::error!(%error, "the controllers ended; the API server goes on without them");
        }
        stop.stopped().await;
    })
}

/// Who the server is to nodes.
pub(super) fn node_client(certificates: &Certificates) -> NodeClient {
    NodeClient {
        certificate: certificates.kubelet_client.certificate.clone().into_bytes(),
        key: certificates.kubelet_client.key.clone().into_bytes(),
        authorities: certificates.authority.clone().into_bytes(),
    }
}

/// Signs requests that were approved with the key of the authority.
pub(super) fn certificate_signer(certificates: &Certificates) -> CertificateSigner {
    let random = || {
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map(|()| bytes).map_err(|_| "no random bytes".to_owned())
    };
    CertificateSigner::of_authority(Arc::clone(certificates.issuer.inner()), random)
}
