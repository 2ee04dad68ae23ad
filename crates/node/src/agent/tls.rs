//! How the node's own API is served.

use std::{io, net::SocketAddr, sync::Arc};

use k3_pki::{PemError, read_certificates};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use tokio::net::TcpListener;

use super::{AgentError, Config, serving::Resolver};

/// Serves with the certificate of the moment, and knows clients by certificates of the cluster's authority; who shows none is
/// let through, and has to say by a token who they are.
pub(super) fn server(config: &Config, resolver: Resolver) -> Result<Arc<ServerConfig>, AgentError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(AgentError::Tls)?;
    let mut roots = RootCertStore::empty();
    let authorities = match read_certificates(config.authority.as_bytes()) {
        Err(PemError::Missing(_)) => Vec::new(),
        read => read.map_err(|error| AgentError::Authority(error.to_string()))?,
    };
    for certificate in authorities {
        roots
            .add(certificate)
            .map_err(|error| AgentError::Authority(error.to_string()))?;
    }
    let builder = if roots.is_empty() {
        builder.with_no_client_auth()
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.allow_unauthenticated().build();
        builder.with_client_cert_verifier(verifier.map_err(|error| AgentError::Authority(error.to_string()))?)
    };
    Ok(Arc::new(builder.with_cert_resolver(Arc::new(resolver))))
}

/// Listens where it was told, or at a free port if somebody else does: a second node of this machine has its own, and tells it
/// in its Node.
pub(super) async fn listen(config: &Config) -> Result<(TcpListener, u16), AgentError> {
    let wanted = SocketAddr::new(config.listen, config.port);
    let listener = match TcpListener::bind(wanted).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let free = TcpListener::bind(SocketAddr::new(config.listen, 0)).await;
            tracing::warn!(
                port = config.port,
                "the port of the node's API is taken; it takes a free one"
            );
            free
        }
        other => other,
    };
    let listener = listener.map_err(|error| AgentError::Listen(wanted, error))?;
    let port = listener
        .local_addr()
        .map_err(|error| AgentError::Listen(wanted, error))?
        .port();
    Ok((listener, port))
}
