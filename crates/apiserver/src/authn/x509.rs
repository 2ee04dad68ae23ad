//! Authentication by client certificate: the common name is the user, the organizations are the groups.
//!
//! Promises: TLS has verified only that the client holds the private key; issuer, usage and validity are verified here, and
//! again periodically while the connection lasts. An untrusted certificate is a 401, not a failed handshake, as upstream.

use k3_api::{strategy::User, time::Time};
use k3_pki::{Certificate, ParseError};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    server::danger::ClientCertVerifier,
};

use crate::NODE_CLIENT_USER;

pub(super) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// How long a verification result is cached.
const SECONDS: i64 = 10;

/// A certificate that a client showed when it connected.
pub(crate) struct ClientCertificate {
    certificate: CertificateDer<'static>,
    /// Those between it and the authority.
    between: Vec<CertificateDer<'static>>,
    /// What was found out, and when. It is found out under the lock; a panic leaves what was known before, which expires.
    cached_result: Mutex<Option<(i64, CertificateResult)>>,
}

/// The user, none, or why the certificate is rejected.
type CertificateResult = Result<Option<User>, CertificateError>;

/// Why a certificate is rejected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum CertificateError {
    /// Issuer, usage or validity are not those of a client.
    #[error("verifying the client certificate failed: {0}")]
    Verification(#[source] rustls::Error),
    /// The clock is before 1970: whether it is valid cannot be known.
    #[error("verifying the client certificate failed: the clock of the server is before 1970")]
    Clock,
    #[error(transparent)]
    User(#[from] CertificateUserError),
}

/// Why a certificate does not identify a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(super) enum CertificateUserError {
    /// It cannot be read.
    #[error("not an X.509 certificate: {0}")]
    Certificate(#[from] ParseError),
    /// It is for connections to nodes.
    #[error("the certificate of {NODE_CLIENT_USER} is for connections to nodes, and is not accepted here")]
    NodeClient,
    /// The UID is invalid.
    #[error("the certificate's subject: {0}")]
    Uid(BadUid),
}

/// What is wrong with the uid of a certificate's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadUid {
    /// There are several.
    #[error("expected 1 UID, but found {0}")]
    Several(usize),
    /// It is there and empty.
    #[error("UID cannot be an empty string")]
    Empty,
}

// --- ClientCertificate ---

impl ClientCertificate {
    /// What a client showed, if it is a certificate.
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let owned = |certificate: &CertificateDer<'_>| certificate.clone().into_owned();
        let (first, between) = chain.split_first()?;
        Some(ClientCertificate {
            certificate: owned(first),
            between: between.iter().map(owned).collect(),
            cached_result: Mutex::default(),
        })
    }

    /// The user of the certificate.
    pub(super) fn user(&self, verifier: &dyn ClientCertVerifier, now: Time) -> CertificateResult {
        let now = now.unix_seconds();
        let mut cached_result = self.cached_result.lock();
        if let Some((when, cached_result)) = &*cached_result
            && (0..SECONDS).contains(&(now - when))
        {
            return cached_result.clone();
        }
        let found = self.verify(verifier, now);
        *cached_result = Some((now, found.clone()));
        found
    }

    fn verify(&self, verifier: &dyn ClientCertVerifier, now: i64) -> CertificateResult {
        let seconds = u64::try_from(now).map_err(|_| CertificateError::Clock)?;
        let time = std::time::Duration::from_secs(seconds);
        verifier
            .verify_client_cert(&self.certificate, &self.between, UnixTime::since_unix_epoch(time))
            .map_err(CertificateError::Verification)?;
        Ok(certificate_user(&self.certificate)?)
    }
}

/// The user of a verified certificate in DER form; `None` without a common name.
// upstream: staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go AuthenticateRequest, parseUIDFromCert
fn certificate_user(der: &[u8]) -> Result<Option<User>, CertificateUserError> {
    let identity = Certificate::from_der(der)?.identity;
    if identity.common_name.is_empty() {
        return Ok(None);
    }
    // A server that is made to call itself, or another one of its cluster, must not be known by what it shows to nodes.
    if identity.common_name == NODE_CLIENT_USER {
        return Err(CertificateUserError::NodeClient);
    }
    let uid = match identity.uids.as_slice() {
        [] => String::new(),
        [uid] if uid.is_empty() => return Err(CertificateUserError::Uid(BadUid::Empty)),
        [uid] => uid.clone(),
        several => return Err(CertificateUserError::Uid(BadUid::Several(several.len()))),
    };
    Ok(Some(User {
        name: identity.common_name,
        uid,
        groups: identity.organizations,
        extra: vec![(CREDENTIAL_ID.to_owned(), vec![fingerprint(der)])],
    }))
}

fn fingerprint(der: &[u8]) -> String {
    let mut text = "X509SHA256=".to_owned();
    for byte in digest(&SHA256, der).as_ref() {
        for digit in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
        KeyPair,
    };
    use rustls::{RootCertStore, crypto::ring::default_provider, server::WebPkiClientVerifier};

    use super::*;

    /// A certificate made by another program's rules.
    fn made(names: &[&str], subject: &[(DnType, DnValue)]) -> Vec<u8> {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    fn uid() -> DnType {
        DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2])
    }

    fn authority() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate for alice, in the years 2020 to 2021.
    fn alice(authority: &CertifiedIssuer<'_, KeyPair>, usage: ExtendedKeyUsagePurpose) -> ClientCertificate {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "alice");
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        let key = KeyPair::generate().unwrap();
        let der = params.signed_by(&key, authority).unwrap().der().clone();
        ClientCertificate::new(&[der]).unwrap()
    }

    fn verifier(authority: &CertifiedIssuer<'_, KeyPair>) -> Arc<dyn ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        WebPkiClientVerifier::builder_with_provider(roots.into(), default_provider().into())
            .build()
            .unwrap()
    }

    #[test]
    fn verifies_issuer_usage_and_validity() {
        let ours = authority();
        let others = authority();
        let verifier = verifier(&ours);
        let at = |text: &str, authenticate_credentials: &ClientCertificate| {
            authenticate_credentials.user(verifier.as_ref(), Time::parse(text).unwrap())
        };
        let good = alice(&ours, ExtendedKeyUsagePurpose::ClientAuth);
        assert_eq!(at("2020-12-31T23:59:59Z", &good).unwrap().unwrap().name, "alice");
        // The connection outlives the certificate; a clock that is set back is accepted too.
        assert!(at("2021-01-01T00:00:10Z", &good).is_err());
        assert!(at("2019-12-31T23:59:59Z", &good).is_err());
        let foreign = alice(&others, ExtendedKeyUsagePurpose::ClientAuth);
        assert!(at("2020-06-01T00:00:00Z", &foreign).is_err());
        let serving = alice(&ours, ExtendedKeyUsagePurpose::ServerAuth);
        assert!(at("2020-06-01T00:00:00Z", &serving).is_err());
    }

    #[test]
    fn subject_maps_to_user_and_groups() {
        let der = made(
            &[],
            &[
                (DnType::CommonName, "admin".into()),
                (DnType::OrganizationName, "system:masters".into()),
                (uid(), "u-1".into()),
            ],
        );
        let user = certificate_user(&der).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("admin", "u-1"));
        assert_eq!(user.groups, ["system:masters"]);
        let [(key, values)] = user.extra.as_slice() else {
            panic!("{:?}", user.extra);
        };
        assert_eq!(key, CREDENTIAL_ID);
        assert_eq!(values.len(), 1);
        assert_eq!(values[0].len(), "X509SHA256=".len() + 64);
    }

    #[test]
    fn certificate_without_common_name_has_no_user() {
        let der = made(
            &["localhost"],
            &[(DnType::OrganizationName, "system:masters".into())],
        );
        assert_eq!(certificate_user(&der), Ok(None));
    }

    #[test]
    fn rejects_kubelet_client_certificate() {
        for groups in [&[][..], &["system:masters"]] {
            let mut names = vec![(DnType::CommonName, NODE_CLIENT_USER.into())];
            names.extend(
                groups
                    .iter()
                    .map(|group| (DnType::OrganizationName, (*group).into())),
            );
            assert_eq!(
                certificate_user(&made(&[], &names)),
                Err(CertificateUserError::NodeClient)
            );
        }
    }

    #[test]
    fn rejects_empty_uid() {
        let der = made(&[], &[(DnType::CommonName, "a".into()), (uid(), "".into())]);
        assert_eq!(
            certificate_user(&der),
            Err(CertificateUserError::Uid(BadUid::Empty))
        );
    }

    #[test]
    fn rejects_non_certificate() {
        assert!(certificate_user(b"nonsense").is_err());
    }

    #[test]
    fn reads_long_non_latin_subject() {
        let long = "\u{e9}".repeat(300);
        let value = DnValue::BmpString(long.as_str().try_into().unwrap());
        let user = certificate_user(&made(&[], &[(DnType::CommonName, value)]));
        assert_eq!(user.unwrap().unwrap().name, long);
    }

    /// A certificate of a node that is in `system:masters` too, and the same with a length of that text that is not the
    /// shortest one: where one reader takes it and another stops, a group is hidden from one of them.
    #[test]
    fn rejects_non_minimal_der_length() {
        const VISIBLE: &str = "MIIBQzCB6qADAgECAgEHMAoGCCqGSM49BAMCMA0xCzAJBgNVBAMMAmNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjBIMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxFjAUBgNVBAMMDXN5c3RlbTpub2RlOm4xFzAVBgNVBAoMDnN5c3RlbTptYXN0ZXJzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDGJ+BMfCQuyI4lw9BJdBC2rrkV8z3et7wz0lfpuVOwoSvUZRErx7P0nGrk6fem1lqiVRz7rAJMl3AwO/SlGCYzAKBggqhkjOPQQDAgNIADBFAiBG5BNcbgS+9w8NFYx811kUxF+YcGZNxwveoK8KjKwKOwIhAOoeL6tQ+GoyinvGfsmYTdzrZHg/0dzElv4vZCTuVGMk";
        const HIDDEN: &str = "MIIBRTCB7KADAgECAgEHMAoGCCqGSM49BAMCMA0xCzAJBgNVBAMMAmNhMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjBKMRUwEwYDVQQKDAxzeXN0ZW06bm9kZXMxFjAUBgNVBAMMDXN5c3RlbTpub2RlOm4xGTAXBgNVBAoMggAOc3lzdGVtOm1hc3RlcnMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQMYn4Ex8JC7IjiXD0El0ELauuRXzPd63vDPSV+m5U7ChK9RlESvHs/ScauTp96bWWqJVHPusAkyXcDA79KUYJjMAoGCCqGSM49BAMCA0gAMEUCIQD4fogZ63pb2henzv6ORuyl/2tBTWdyZ5PcG2wmE7mcLQIgCLUJuFnKYwqg1Y4Y5GrmXE2AAzC274psUdkhGBXMtac=";
        let user = |text: &str| certificate_user(&k3_api::base64::decode(text).unwrap());
        let groups = user(VISIBLE).unwrap().unwrap().groups;
        assert_eq!(groups, ["system:nodes", "system:masters"]);
        assert!(user(HIDDEN).is_err());
    }

    #[test]
    fn mutated_certificates_do_not_panic() {
        let der = made(&["a", "::1"], &[(DnType::CommonName, "alice".into())]);
        for length in 0..der.len() {
            assert!(certificate_user(&der[..length]).is_err(), "{length}");
        }
        for position in 0..der.len() {
            for value in [0, 0x7f, 0x80, 0x83, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[position] = value;
                let _ = certificate_user(&changed);
            }
        }
    }

    #[test]
    fn fingerprint_is_hex_sha256() {
        let known = "X509SHA256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(b""), known);
    }
}
