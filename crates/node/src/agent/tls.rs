//! TLS configuration and listener of the kubelet API.

use std::{io, net::SocketAddr, sync::Arc};

use k3_pki::{PemError, read_certificates};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use tokio::net::TcpListener;

use super::{AgentConfig, NodeAgentError, serving_certificate::ServingCertResolver};

/// TLS configuration with the current serving certificate. Client certificates are verified against the cluster's CA; they are
/// optional, because a client may authenticate with a bearer token instead.
pub(super) fn server_config(
    config: &AgentConfig,
    resolver: ServingCertResolver,
) -> Result<Arc<ServerConfig>, NodeAgentError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(NodeAgentError::Tls)?;
    let mut roots = RootCertStore::empty();
    let authorities = match read_certificates(config.authority.as_bytes()) {
        Err(PemError::Missing(_)) => Vec::new(),
        certificates => certificates.map_err(|error| NodeAgentError::Authority(error.to_string()))?,
    };
    for certificate in authorities {
        roots
            .add(certificate)
            .map_err(|error| NodeAgentError::Authority(error.to_string()))?;
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.allow_unauthenticated().build();
        builder.with_client_cert_verifier(
            verifier.map_err(|error| NodeAgentError::Authority(error.to_string()))?,
        )
    };
    Ok(Arc::new(builder.with_cert_resolver(Arc::new(resolver))))
}

/// Listens at the configured address, or at a free port if the configured one is in use: a second node of this machine gets its own
/// port, which its Node status reports.
pub(super) async fn listen(config: &AgentConfig) -> Result<(TcpListener, u16), NodeAgentError> {
    let configured = SocketAddr::new(config.listen, config.port);
    let listener = match TcpListener::bind(configured).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let free = TcpListener::bind(SocketAddr::new(config.listen, 0)).await;
            tracing::warn!(
                port = config.port,
                "the kubelet port is in use; using a free port"
            );
            free
        }
        other => other,
    };
    let listener = listener.map_err(|error| NodeAgentError::Listen(configured, error))?;
    let port = listener
        .local_addr()
        .map_err(|error| NodeAgentError::Listen(configured, error))?
        .port();
    Ok((listener, port))
}
