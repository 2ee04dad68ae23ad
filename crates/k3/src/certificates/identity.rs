//! A certificate and its key: one for the server, one for its first user, one that the server shows to nodes.

use k3_pki::{AlternativeName, Certificate, KeyPair, Subject, Template, read_certificates, read_private_key};
use rustls::{
    RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime},
    server::{ParsedCertificate, WebPkiClientVerifier},
    sign::CertifiedKey,
};

use super::{
    Names,
    authority::{Authority, Period},
    certificates::CertificateError,
};
use crate::tls;

/// How long a certificate lives.
const LIFE_DAYS: i64 = 365;
/// How long before expiry it is renewed.
const RENEWAL_DAYS: i64 = 90;
pub(super) const DAY: i64 = 24 * 60 * 60;

/// A certificate and its key, in PEM form.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Whom a certificate is for.
pub(super) enum Purpose<'p> {
    /// The server, under these names.
    Server(&'p Names),
    /// A user of the API with these groups.
    Client {
        name: &'static str,
        groups: &'static [&'static str],
    },
}

// --- Identity ---

impl Identity {
    /// Makes a new key, and a certificate for it.
    pub(super) fn issue(
        authority: &Authority,
        purpose: &Purpose<'_>,
        now: i64,
    ) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let names = purpose.names();
        let names: Vec<_> = names
            .iter()
            .map(|name| AlternativeName::from_host(name))
            .collect();
        let period = Period::days(now, LIFE_DAYS)?;
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

    /// Why this cannot go on being used for `purpose`; `None` if it can.
    pub(super) fn flaw(
        &self,
        authority: &Authority,
        purpose: &Purpose<'_>,
        now: i64,
    ) -> Option<&'static str> {
        let Ok((der, _)) = self.der() else {
            return Some("its files cannot be read");
        };
        let Ok(certificate) = Certificate::from_der(&der) else {
            return Some("it cannot be read");
        };
        if certificate.not_before > now {
            return Some("it is not valid yet");
        }
        if certificate.not_after < now + RENEWAL_DAYS * DAY {
            return Some("it is near its end");
        }
        if !self.is_pair() {
            return Some("its key is another one's");
        }
        if !purpose.is_met(&certificate) {
            return Some("it is for other names");
        }
        if !purpose.is_verified(&der, authority.der(), now) {
            return Some("it is of another authority");
        }
        None
    }

    /// All certificates and the key as TLS wants them to be shown.
    pub(crate) fn chain(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateError> {
        let chain = read_certificates(self.certificate.as_bytes())?;
        Ok((chain, read_private_key(self.key.as_bytes())?))
    }

    /// Whether the key is the certificate's.
    pub(super) fn is_pair(&self) -> bool {
        self.der().is_ok_and(|(certificate, key)| {
            CertifiedKey::from_der(vec![certificate], key, &tls::provider()).is_ok()
        })
    }

    /// The certificate and the key as TLS wants them.
    pub(crate) fn der(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), CertificateError> {
        let (mut chain, key) = self.chain()?;
        Ok((chain.swap_remove(0), key))
    }
}

// --- Purpose ---

impl Purpose<'_> {
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

    /// Whether a peer that trusts the authority takes the certificate.
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
