//! The certificate authority of a cluster. Its key is replaced only on request. Its certificate is renewed with the same key and
//! name, so that signed certificates stay valid.

use std::{path::Path, sync::Arc};

use k3_pki::{KeyPair, Subject, Template};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;

use super::{certificate_and_key::DAY, server_certificates::CertificateError};
use crate::secret_file;

const LIFE_DAYS: i64 = 10 * 365;
/// Long before expiry, because the authority must outlive the certificates that it signs.
const RENEWAL_DAYS: i64 = 2 * 365;
/// Backdates certificates, so that they are valid for peers whose clock is behind.
const SKEW: i64 = 60 * 60;

/// A certificate authority with its private key.
pub(crate) struct ClusterAuthority {
    inner: Arc<k3_pki::Authority>,
    pem: String,
}

/// The validity of a certificate in seconds since 1970, and its serial number.
pub(super) struct ValidityPeriod {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) serial: [u8; 16],
}

// --- ClusterAuthority ---

impl ClusterAuthority {
    /// Loads the authority of a directory; creates or renews it as needed. The caller holds the lock of the directory.
    pub(super) fn ensure(directory: &Path, now: i64) -> Result<Self, CertificateError> {
        Self::ensure_as(directory, "ca", now)
    }

    /// Loads the next authority during a rotation; see [`super::rotation`].
    pub(super) fn next(directory: &Path, now: i64) -> Result<Option<Self>, CertificateError> {
        if !directory.join("ca-next.crt").exists() {
            return Ok(None);
        }
        Self::ensure_next(directory, now).map(Some)
    }

    /// Loads the next authority, or creates it.
    pub(super) fn ensure_next(directory: &Path, now: i64) -> Result<Self, CertificateError> {
        Self::ensure_as(directory, "ca-next", now)
    }

    fn ensure_as(directory: &Path, name: &str, now: i64) -> Result<Self, CertificateError> {
        let key_path = directory.join(format!("{name}.key"));
        let certificate_path = directory.join(format!("{name}.crt"));
        let written = secret_file::read(&certificate_path)?;
        let key = match secret_file::read(&key_path)? {
            Some(pem) => KeyPair::from_pem(&pem).map_err(|source| CertificateError::Key {
                path: key_path,
                source,
            })?,
            // A new key would invalidate every kubeconfig and certificate of the cluster, so a missing key is an error.
            None if written.is_some() => {
                return Err(CertificateError::KeyMissing { path: key_path });
            }
            None => {
                let key = KeyPair::generate()?;
                secret_file::write(&key_path, &key.to_pem())?;
                key
            }
        };
        let authority = match written {
            None => Self::certified(key, now)?,
            Some(pem) => {
                let inner = k3_pki::Authority::from_pem(&pem, key).ok();
                let inner = inner.filter(|inner| inner.certificate().identity.common_name == NAME);
                let inner = inner.ok_or_else(|| CertificateError::AuthorityUnfit {
                    path: certificate_path.clone(),
                })?;
                let read = inner.certificate();
                if read.not_before <= now && now + RENEWAL_DAYS * DAY <= read.not_after {
                    return Ok(Self {
                        inner: Arc::new(inner),
                        pem,
                    });
                }
                tracing::info!("renewing the certificate of the authority with the same key");
                Self::certified(inner.into_key(), now)?
            }
        };
        secret_file::write(&certificate_path, &authority.pem)?;
        Ok(authority)
    }

    /// Creates an authority in memory.
    pub(super) fn generate(now: i64) -> Result<Self, CertificateError> {
        Self::certified(KeyPair::generate()?, now)
    }

    /// Creates a certificate for an existing key.
    fn certified(key: KeyPair, now: i64) -> Result<Self, CertificateError> {
        let period = ValidityPeriod::days(now, LIFE_DAYS)?;
        let template = Template {
            subject: &Subject::new(&[], NAME),
            names: &[],
            usages: &["digital signature", "cert sign", "crl sign"],
            not_before: period.from,
            not_after: period.to,
            serial: period.serial,
        };
        let inner = k3_pki::Authority::self_signed(key, &template)?;
        Ok(Self {
            pem: inner.to_pem(),
            inner: Arc::new(inner),
        })
    }

    /// The signer of certificates.
    pub(crate) fn inner(&self) -> &Arc<k3_pki::Authority> {
        &self.inner
    }

    /// The certificate.
    pub(super) fn der(&self) -> &CertificateDer<'static> {
        self.inner.der()
    }

    /// The certificate in PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

/// The subject. It must not change, or existing certificates would have an unknown issuer.
const NAME: &str = "k3-ca";

// --- ValidityPeriod ---

impl ValidityPeriod {
    /// A validity of `days` from now, with a random serial number.
    pub(super) fn days(now: i64, days: i64) -> Result<Self, CertificateError> {
        let mut serial = [0; 16];
        SystemRandom::new()
            .fill(&mut serial)
            .map_err(|_| CertificateError::Random)?;
        Ok(Self {
            from: now - SKEW,
            to: now + days * DAY,
            serial,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use k3_pki::read_certificates;
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose,
    };

    use super::{
        super::{CertificateAndKey, certificate_and_key::CertificatePurpose},
        *,
    };

    const NOW: i64 = 1_795_000_000;

    /// Creates a certificate with the library of earlier versions.
    fn params(name: &str, days: i64) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let date = |seconds| time::OffsetDateTime::from_unix_timestamp(seconds).unwrap();
        params.not_before = date(NOW - DAY);
        params.not_after = date(NOW + days * DAY);
        params
    }

    #[test]
    fn keeps_authorities_of_earlier_versions() {
        let directory = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut authority = params(NAME, LIFE_DAYS);
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let pem = authority.self_signed(&key).unwrap().pem();
        fs::write(directory.path().join("ca.crt"), &pem).unwrap();
        fs::write(directory.path().join("ca.key"), key.serialize_pem()).unwrap();
        let issuer = Issuer::new(authority, key);
        let own = rcgen::KeyPair::generate().unwrap();
        let mut admin = params("kubernetes-admin", 365);
        admin
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        admin.use_authority_key_identifier_extension = true;
        let admin = CertificateAndKey {
            certificate: admin.signed_by(&own, &issuer).unwrap().pem(),
            key: own.serialize_pem(),
        };
        let read = ClusterAuthority::ensure(directory.path(), NOW).unwrap();
        assert_eq!(read.pem(), pem);
        let purpose = CertificatePurpose::Client {
            name: "kubernetes-admin",
            groups: &["system:masters"],
        };
        assert_eq!(admin.flaw(&read, &purpose, NOW), None);
        // A new certificate verifies against the authority before and after its renewal.
        let later = NOW + (LIFE_DAYS - RENEWAL_DAYS) * DAY + DAY;
        let renewed = ClusterAuthority::ensure(directory.path(), later).unwrap();
        assert_ne!(renewed.pem(), pem);
        assert_eq!(admin.flaw(&renewed, &purpose, NOW + DAY), None);
        let old = read_certificates(pem.as_bytes()).unwrap().remove(0);
        let key_id = |der: &[u8]| {
            let at = der
                .windows(5)
                .position(|window| window == [0x55, 0x1d, 0x0e, 4, 22]);
            der[at.unwrap()..][..27].to_vec()
        };
        assert_eq!(key_id(&old), key_id(renewed.der()));
    }
}
