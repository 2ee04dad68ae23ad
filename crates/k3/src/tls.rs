//! TLS of the server: 1.2 and newer, HTTP/2 or HTTP/1.1, optional client certificates.
//!
//! The handshake proves only that a client has the key of its certificate. The API server verifies the issuer per request with
//! [`ServerTls::clients`], so a client with a certificate of another authority gets a 401 instead of a failed handshake.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, UnixTime},
    server::{
        ClientHello, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::certificates::{CertificateError, ServerCertificates};

/// The TLS configuration of the server. Certificate and verifier can be replaced while connections exist.
pub(crate) struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    /// The verifier of client certificates.
    pub(crate) clients: Arc<dyn ClientCertVerifier>,
    certificate: Arc<ReloadableCertificate>,
    verifier: ReloadableClientVerifier,
}

/// The current serving certificate.
#[derive(Debug)]
struct ReloadableCertificate(RwLock<Arc<CertifiedKey>>);

/// The current verifier of client certificates. Clones share it and differ in the stage.
#[derive(Clone, Debug)]
struct ReloadableClientVerifier {
    current: Arc<RwLock<Arc<dyn ClientCertVerifier>>>,
    stage: VerificationStage,
}

/// When a client certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerificationStage {
    /// At the handshake: only the possession of the key.
    Connection,
    /// At each request, by the API server.
    Request,
}

/// The crypto provider.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

// --- ServerTls ---

impl ServerTls {
    pub(crate) fn new(certificates: &ServerCertificates) -> Result<Self, CertificateError> {
        let certificate = Arc::new(ReloadableCertificate(RwLock::new(certified_key(certificates)?)));
        let verifier = ReloadableClientVerifier {
            current: Arc::new(RwLock::new(client_verifier(certificates)?)),
            stage: VerificationStage::Request,
        };
        let at_connection = ReloadableClientVerifier {
            stage: VerificationStage::Connection,
            ..verifier.clone()
        };
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&certificate) as _;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_client_cert_verifier(Arc::new(at_connection))
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(ServerTls {
            config: Arc::new(config),
            clients: Arc::new(verifier.clone()),
            certificate,
            verifier,
        })
    }

    /// Replaces the serving certificate and the trusted authorities. Existing connections stay open; their client certificates are
    /// verified again within seconds.
    pub(crate) fn replace(&self, certificates: &ServerCertificates) -> Result<(), CertificateError> {
        let certificate = certified_key(certificates)?;
        let verifier = client_verifier(certificates)?;
        *self.certificate.0.write() = certificate;
        *self.verifier.current.write() = verifier;
        Ok(())
    }
}

fn certified_key(certificates: &ServerCertificates) -> Result<Arc<CertifiedKey>, CertificateError> {
    let (mut chain, key) = certificates.server.chain()?;
    // With the authority, so that a joining node, which only has its hash, can verify it.
    for authority in certificates.authorities()? {
        if !chain.contains(&authority) {
            chain.push(authority);
        }
    }
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider())?))
}

fn client_verifier(
    certificates: &ServerCertificates,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates.clients_der()? {
        roots.add(authority)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    Ok(verifier)
}

// --- ReloadableCertificate ---

impl ResolvesServerCert for ReloadableCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

// --- ReloadableClientVerifier ---

impl ReloadableClientVerifier {
    fn current(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.current.read())
    }
}

impl ClientCertVerifier for ReloadableClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // None: clients have one certificate per server, and send it regardless of hints.
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match self.stage {
            VerificationStage::Connection => Ok(ClientCertVerified::assertion()),
            VerificationStage::Request => self.current().verify_client_cert(certificate, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current()
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.current()
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}
