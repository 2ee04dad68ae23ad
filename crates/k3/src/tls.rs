//! How the server speaks TLS: 1.2 and newer, HTTP/2 or HTTP/1.1, and a client may show a certificate, which
//! then must be of the server's own authority.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};

use crate::certificates::{CertificateError, Certificates};

/// The cryptography of all that is done here.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The settings of the serving side.
pub(crate) fn server_config(certificates: &Certificates) -> Result<Arc<ServerConfig>, CertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificates.authority_der()?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let (certificate, key) = certificates.server.der()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
