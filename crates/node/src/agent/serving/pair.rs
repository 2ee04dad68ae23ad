//! A key with its certificate, and the one that is used now.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use k3_pki::{
    AlternativeName, IssueError, KeyError, KeyPair, PemError, Subject, Template, new_request,
    read_certificates, read_private_key, self_signed_certificate,
};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::agent) enum PairError {
    #[error("cannot make a key: {0}")]
    Key(#[from] KeyError),
    #[error("cannot make a certificate or a request: {0}")]
    Make(#[from] IssueError),
    #[error("cannot read it: {0}")]
    Read(#[from] PemError),
    #[error("cannot be served with: {0}")]
    Use(#[from] rustls::Error),
}

/// Gives connections the certificate of the moment they come. Clones share it.
#[derive(Clone)]
pub struct Resolver {
    current: Arc<RwLock<Arc<CertifiedKey>>>,
}

/// What a certificate is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) node: String,
    /// Host names and addresses, each as a text.
    pub(super) names: Vec<String>,
}

// --- Names ---

impl Names {
    fn subject(&self) -> Subject {
        Subject::new(&["system:nodes"], &format!("system:node:{}", self.node))
    }

    fn alternative_names(&self) -> Vec<AlternativeName> {
        let names = self.names.iter();
        names.map(|name| AlternativeName::from_host(name)).collect()
    }

    /// A request for a certificate, in PEM.
    pub(super) fn request(&self, key: &KeyPair) -> Result<String, PairError> {
        Ok(new_request(&self.subject(), &self.alternative_names(), key)?)
    }

    /// A certificate that we signed ourselves, with a new key. Nobody who verifies takes it, so that it need not end.
    pub(super) fn self_signed(&self, serial: [u8; 16]) -> Result<CertifiedKey, PairError> {
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
        certified(certificate.as_bytes(), key.to_pem().as_bytes())
    }
}

/// A key and its certificates, from PEM.
pub(super) fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, PairError> {
    let key = rustls::crypto::ring::sign::any_supported_type(&read_private_key(key)?)?;
    let pair = CertifiedKey::new(read_certificates(certificate)?, key);
    pair.keys_match()?;
    Ok(pair)
}

// --- Resolver ---

impl Resolver {
    pub(super) fn new(first: CertifiedKey) -> Self {
        Resolver {
            current: Arc::new(RwLock::new(Arc::new(first))),
        }
    }

    pub(super) fn set(&self, pair: CertifiedKey) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }

    /// The certificate that is used now.
    pub(super) fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}
