//! The authority that the server's certificates come from: a key that stays until somebody asks for another, and a certificate
//! of its own that is renewed with the same key and name, so that what it signed stays good.

use std::path::Path;

use k3_apiserver::Certificate;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SerialNumber, SigningKey,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use time::OffsetDateTime;

use super::{identity::DAY, set::CertificateError};
use crate::{secret_file, tls};

const LIFE_DAYS: i64 = 10 * 365;
/// It must outlive what it signs, by far.
const RENEWAL_DAYS: i64 = 2 * 365;
/// Clocks differ: what was made now holds for a peer that is behind.
const SKEW: i64 = 60 * 60;

/// An authority that can sign.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// From when to when a certificate holds, in seconds since 1970.
pub(super) struct Period {
    from: i64,
    to: i64,
}

// --- Authority ---

impl Authority {
    /// The authority of a folder, made or renewed if need be. The caller holds the folder's lock.
    pub(super) fn ensure(folder: &Path, now: i64) -> Result<Self, CertificateError> {
        Self::ensure_as(folder, "ca", now)
    }

    /// The one that will take its place, if there is one; see [`super::rotation`].
    pub(super) fn next(folder: &Path, now: i64) -> Result<Option<Self>, CertificateError> {
        if !folder.join("ca-next.crt").exists() {
            return Ok(None);
        }
        Self::ensure_next(folder, now).map(Some)
    }

    /// The one that will take its place, made if need be.
    pub(super) fn ensure_next(folder: &Path, now: i64) -> Result<Self, CertificateError> {
        Self::ensure_as(folder, "ca-next", now)
    }

    fn ensure_as(folder: &Path, name: &str, now: i64) -> Result<Self, CertificateError> {
        let key_path = folder.join(format!("{name}.key"));
        let certificate_path = folder.join(format!("{name}.crt"));
        let written = secret_file::read(&certificate_path)?;
        let key = match secret_file::read(&key_path)? {
            Some(pem) => KeyPair::from_pem(&pem).map_err(|source| CertificateError::Key {
                path: key_path,
                source,
            })?,
            // Another key would make every kubeconfig and certificate out there worthless, unasked.
            None if written.is_some() => {
                return Err(CertificateError::KeyMissing { path: key_path });
            }
            None => {
                let key = KeyPair::generate()?;
                secret_file::write(&key_path, &key.serialize_pem())?;
                key
            }
        };
        if let Some(pem) = written {
            let unfit = || CertificateError::AuthorityUnfit {
                path: certificate_path.clone(),
            };
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| unfit())?;
            let read = Certificate::read(&certificate).map_err(|_| unfit())?;
            let is_pair = CertifiedKey::from_der(vec![certificate.clone()], private(&key)?, &tls::provider());
            if is_pair.is_err() || read.common_name != NAME {
                return Err(unfit());
            }
            if read.not_before <= now && now + RENEWAL_DAYS * DAY <= read.not_after {
                return Ok(Self {
                    issuer: Issuer::new(params(now)?, key),
                    certificate,
                    pem,
                });
            }
            tracing::info!("renewing the certificate of the authority, its key stays");
        }
        let params = params(now)?;
        let certificate = params.self_signed(&key)?;
        let pem = certificate.pem();
        secret_file::write(&certificate_path, &pem)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            pem,
        })
    }

    /// A certificate for a key, in PEM form.
    pub(super) fn sign(&self, params: &CertificateParams, key: &KeyPair) -> Result<String, CertificateError> {
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }

    /// Its certificate.
    pub(super) fn der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Its certificate in PEM form.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// Signs bytes with its key.
    pub(crate) fn sign_bytes(&self, bytes: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.issuer.key().sign(bytes)
    }
}

/// The authority's name. It stays, or what was signed under it would be of another authority.
const NAME: &str = "k3-ca";

fn params(now: i64) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::default();
    Period::days(now, LIFE_DAYS).apply(&mut params)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    Ok(params)
}

fn private(key: &KeyPair) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|problem| rustls::Error::General(problem.to_owned()).into())
}

// --- Period ---

impl Period {
    /// So many days from now.
    pub(super) fn days(now: i64, days: i64) -> Self {
        Self {
            from: now - SKEW,
            to: now + days * DAY,
        }
    }

    /// Puts the period into what will be a certificate, and a serial number that no other one has.
    pub(super) fn apply(&self, params: &mut CertificateParams) -> Result<(), CertificateError> {
        let date =
            |seconds| OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| CertificateError::Clock);
        params.not_before = date(self.from)?;
        params.not_after = date(self.to)?;
        let mut serial = [0; 16];
        SystemRandom::new()
            .fill(&mut serial)
            .map_err(|_| CertificateError::Random)?;
        // Positive, and of the same length always.
        serial[0] = serial[0] & 0x7f | 0x40;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        Ok(())
    }
}
