//! A leaf certificate and its key.

use k3_pki::{AlternativeName, Certificate, KeyPair, Subject, Template, read_certificates, read_private_key};
use rustls::{
    RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::{ParsedCertificate, WebPkiClientVerifier},
    sign::CertifiedKey,
};

use super::{
    SubjectAltNames,
    authority::{ClusterAuthority, ValidityPeriod},
    server_certificates::CertificateError,
};
use crate::tls;

/// Lifetime of a certificate.
const LIFE_DAYS: i64 = 365;
/// Time before expiry at which it is renewed.
const RENEWAL_DAYS: i64 = 90;
pub(super) const DAY: i64 = 24 * 60 * 60;

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CertificateAndKey {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The subject and use of a certificate.
pub(super) enum CertificatePurpose<'p> {
    /// A serving certificate with these names.
    Server(&'p SubjectAltNames),
    /// A client certificate of a user with these groups.
    Client {
        name: &'static str,
        groups: &'static [&'static str],
    },
}

// --- CertificateAndKey ---

impl CertificateAndKey {
    /// Generates a key and issues a certificate for it.
    pub(super) fn issue(
        authority: &ClusterAuthority,
        purpose: &CertificatePurpose<'_>,
        now: i64,
    ) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let names = purpose.names();
        let names: Vec<_> = names
            .iter()
            .map(|name| AlternativeName::from_host(name))
            .collect();
        let period = ValidityPeriod::days(now, LIFE_DAYS)?;
        let template = Template {
            subject: &purpose.subject(),
            names: &names,
            usages: &["digital signature", purpose.usage()],
            not_before: period.from,
            not_after: period.to,
            serial: period.serial,
        };
        let public_key = key.public_key().map_err(CertificateError::Read)?;
        let certificate = authority.inner().issue(&template, &public_key)?;
        Ok(Self {
            certificate,
            key: key.to_pem(),
        })
    }

    /// Returns why the certificate must be replaced, or `None` if it is valid for `purpose`.
    pub(super) fn flaw(
        &self,
        authority: &ClusterAuthority,
        purpose: &CertificatePurpose<'_>,
        now: i64,
    ) -> Option<&'static str> {
        let Ok((der, _)) = self.der() else {
            return Some("its files are unreadable");
        };
        let Ok(certificate) = Certificate::from_der(&der) else {
            return Some("it is malformed");
        };
        if certificate.not_before > now {
            return Some("it is not valid yet");
        }
        if certificate.not_after < now + RENEWAL_DAYS * DAY {
            return Some("it expires soon");
        }
        if !self.is_pair() {
            return Some("the key does not match");
        }
        if !purpose.is_met(&certificate) {
            return Some("the names changed");
        }
        if !purpose.is_verified(&der, authority.der(), now) {
            return Some("another authority signed it");
        }
        None
    }

    /// Parses the certificate chain and the key for rustls.
    pub(crate) fn chain(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateError> {
        let chain = read_certificates(self.certificate.as_bytes())?;
        Ok((chain, read_private_key(self.key.as_bytes())?))
    }

    /// Whether the key is the certificate's key.
    pub(super) fn is_pair(&self) -> bool {
        self.der().is_ok_and(|(certificate, key)| {
            CertifiedKey::from_der(vec![certificate], key, &tls::provider()).is_ok()
        })
    }

    /// Parses the certificate and the key for rustls.
    pub(crate) fn der(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CertificateError> {
        let (mut chain, key) = self.chain()?;
        Ok((chain.swap_remove(0), key))
    }
}

// --- CertificatePurpose ---

impl CertificatePurpose<'_> {
    fn names(&self) -> Vec<String> {
        match self {
            Self::Server(names) => names.to_vec(),
            Self::Client { .. } => Vec::new(),
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Server(_) => Subject::new(&[], "k3"),
            Self::Client { name, groups } => Subject::new(groups, name),
        }
    }

    fn usage(&self) -> &'static str {
        match self {
            Self::Server(_) => "server auth",
            Self::Client { .. } => "client auth",
        }
    }

    fn is_met(&self, certificate: &Certificate) -> bool {
        match self {
            Self::Server(names) => names.matches(&certificate.names.hosts()),
            Self::Client { name, groups } => {
                let identity = &certificate.identity;
                identity.common_name == *name && identity.organizations == *groups
            }
        }
    }

    /// Whether a peer that trusts the authority accepts the certificate.
    fn is_verified(&self, der: &CertificateDer<'_>, authority: &CertificateDer<'_>, now: i64) -> bool {
        let verify = || {
            let mut roots = RootCertStore::empty();
            roots.add(authority.clone().into_owned())?;
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.unsigned_abs()));
            let provider = tls::provider();
            match self {
                Self::Server(_) => verify_server_cert_signed_by_trust_anchor(
                    &ParsedCertificate::try_from(der)?,
                    &roots,
                    &[],
                    now,
                    provider.signature_verification_algorithms.all,
                ),
                Self::Client { .. } => WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
                    .build()
                    .map_err(|error| rustls::Error::General(error.to_string()))?
                    .verify_client_cert(der, &[], now)
                    .map(drop),
            }
        };
        verify().is_ok()
    }
}
