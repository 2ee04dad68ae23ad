//! A key with its certificate, and the one that is used now.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(in crate::agent) enum PairError {
    #[error("cannot make a key or a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("there is no certificate or no key in it")]
    Empty,
    #[error("cannot read it: {0}")]
    Read(#[from] rustls::pki_types::pem::Error),
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
    /// The parameters of a certificate, or of a request for one.
    pub(super) fn parameters(&self) -> Result<CertificateParams, PairError> {
        let mut parameters = CertificateParams::new(self.names.clone())?;
        let subject = &mut parameters.distinguished_name;
        *subject = rcgen::DistinguishedName::new();
        subject.push(DnType::OrganizationName, "system:nodes");
        subject.push(DnType::CommonName, format!("system:node:{}", self.node));
        Ok(parameters)
    }

    /// A certificate that we signed ourselves, with a new key.
    pub(super) fn self_signed(&self) -> Result<CertifiedKey, PairError> {
        let key = KeyPair::generate()?;
        let mut parameters = self.parameters()?;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = parameters.self_signed(&key)?;
        certified(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
    }
}

/// A key and its certificates, from PEM.
pub(super) fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, PairError> {
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        return Err(PairError::Empty);
    }
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
    let pair = CertifiedKey::new(chain, key);
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
