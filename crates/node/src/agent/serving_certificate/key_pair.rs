//! Certificates with their private keys, and the certificate in use.

use std::{fmt, sync::Arc};

use k3_pki::{
    AlternativeName, IssueError, KeyError, KeyPair, PemError, Subject, Template, new_request,
    read_certificates, read_private_key, self_signed_certificate,
};
use parking_lot::RwLock;
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// A key pair cannot be generated or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::agent) enum KeyPairError {
    #[error("failed to generate a private key: {0}")]
    Key(#[from] KeyError),
    #[error("failed to generate a certificate or request: {0}")]
    Issue(#[from] IssueError),
    #[error("failed to parse the certificate or key: {0}")]
    Read(#[from] PemError),
    #[error("unusable certificate or key: {0}")]
    Use(#[from] rustls::Error),
}

/// Resolves to the current serving certificate. Clones share it.
// upstream: staging/src/k8s.io/client-go/util/certificate/certificate_manager.go Current
#[derive(Clone)]
pub struct ServingCertResolver {
    current: Arc<RwLock<Arc<CertifiedKey>>>,
}

/// Node name and subject alternative names of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CertificateNames {
    pub(super) node: String,
    /// Host names and addresses.
    pub(super) names: Vec<String>,
}

// --- CertificateNames ---

impl CertificateNames {
    fn subject(&self) -> Subject {
        Subject::new(&["system:nodes"], &format!("system:node:{}", self.node))
    }

    fn alternative_names(&self) -> Vec<AlternativeName> {
        let names = self.names.iter();
        names.map(|name| AlternativeName::from_host(name)).collect()
    }

    /// A PKCS #10 request, in PEM.
    pub(super) fn request(&self, key: &KeyPair) -> Result<String, KeyPairError> {
        Ok(new_request(&self.subject(), &self.alternative_names(), key)?)
    }

    /// A self-signed certificate with a new key. It never expires: clients that verify certificates reject it anyway.
    pub(super) fn self_signed(&self, serial: [u8; 16]) -> Result<CertifiedKey, KeyPairError> {
        const YEAR: i64 = 365 * 24 * 60 * 60;
        let key = KeyPair::generate()?;
        let template = Template {
            subject: &self.subject(),
            names: &self.alternative_names(),
            usages: &["digital signature", "server auth"],
            not_before: 0,
            not_after: 1000 * YEAR,
            serial,
        };
        let certificate = self_signed_certificate(&key, &template)?;
        certified_key(certificate.as_bytes(), key.to_pem().as_bytes())
    }
}

/// Parses a key and its certificate chain, in PEM.
pub(super) fn certified_key(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, KeyPairError> {
    let key = rustls::crypto::ring::sign::any_supported_type(&read_private_key(key)?)?;
    let pair = CertifiedKey::new(read_certificates(certificate)?, key);
    pair.keys_match()?;
    Ok(pair)
}

// --- ServingCertResolver ---

impl ServingCertResolver {
    pub(super) fn new(first: CertifiedKey) -> Self {
        ServingCertResolver {
            current: Arc::new(RwLock::new(Arc::new(first))),
        }
    }

    pub(super) fn set(&self, pair: CertifiedKey) {
        *self.current.write() = Arc::new(pair);
    }

    pub(super) fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read())
    }
}

impl ResolvesServerCert for ServingCertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl fmt::Debug for ServingCertResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertResolver").finish_non_exhaustive()
    }
}
