//! How the server speaks TLS: 1.2 and newer, HTTP/2 or HTTP/1.1, and a client may show a certificate.
//!
//! Promise: the connection proves that a client has the key of the certificate it shows; whether it is of the server's own
//! authority is for the API server to judge, which has [`Tls::clients`] for it. A client with another one gets an answer that
//! says so, where a connection that breaks would say nothing.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    version::{TLS12, TLS13},
};

use crate::certificates::{CertificateError, Certificates};

/// The settings of the serving side.
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// What judges client certificates.
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
}

/// Lets clients show any certificate that they have the key of.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

/// The cryptography of all that is done here.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The settings of the serving side.
pub(crate) fn server_config(certificates: &Certificates) -> Result<Tls, CertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificates.authority_der()?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let (certificate, key) = certificates.server.der()?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_client_cert_verifier(Arc::new(AnyCertificate(Arc::clone(&clients))))
        // With the authority, so that who has only its hash, such as a node that joins, learns of it.
        .with_single_cert(vec![certificate, certificates.authority_der()?], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Tls {
        config: Arc::new(config),
        clients,
    })
}

// --- AnyCertificate ---

impl ClientCertVerifier for AnyCertificate {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // The API server asks the verifier itself, for every request.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
