//! TLS configuration of outgoing calls: trusted certificates.

use std::{fs, sync::Arc};

use k3_api::go;
use k3_pki::{Certificate, find_certificates, read_certificates, read_private_key};
use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::{
    CallError,
    certificate_verifier::{CertificateVerifier, TlsVerifier},
};
use crate::NodeClient;

/// Why a certificate is not that of a node.
#[derive(Debug, thiserror::Error)]
pub(super) enum NodeCertificateError {
    /// There is none, or it cannot be read.
    #[error("tls: failed to verify certificate: x509: it cannot be read")]
    Unreadable,
    /// It is that of another one.
    #[error(
        "tls: failed to verify certificate: x509: certificate is valid for {subject}, not for node {node}"
    )]
    OtherName { subject: String, node: String },
}

/// Where systems keep the authorities that all programs believe.
const OF_THE_SYSTEM: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How TLS is spoken to whom these authorities vouch for; those of the system if there are none.
pub(super) fn client(authorities: &[u8]) -> Result<ClientConfig, CallError> {
    let of_system;
    let pem = if authorities.is_empty() {
        of_system = OF_THE_SYSTEM
            .iter()
            .find_map(|file| fs::read(file).ok())
            .unwrap_or_default();
        &of_system
    } else {
        authorities
    };
    let trusted = find_certificates(pem);
    if trusted.is_empty() && !authorities.is_empty() {
        return Err(CallError::authorities());
    }
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let verifier = AuthorityVerifier {
        chains: WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .ok(),
        // Those of the system are authorities and nothing else.
        trusted: if authorities.is_empty() {
            Vec::new()
        } else {
            trusted
        },
    };
    let verifier = TlsVerifier::new(verifier, &provider);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CallError::new(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

/// How TLS is spoken to nodes: they must be of the cluster, and are shown who calls.
pub(super) fn node(of: &NodeClient) -> Result<ClientConfig, CallError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(find_certificates(&of.authorities));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| CallError::new(error.to_string()))?
        .with_root_certificates(roots);
    let (chain, key) = identity(of)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| CallError::new(error.to_string()))
}

/// How TLS is spoken to whomever it may be. Only nodes are shown who calls.
pub(super) fn unverified(of: Option<&NodeClient>) -> Result<ClientConfig, CallError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| CallError::new(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TlsVerifier::new(AcceptAnyCertificate, &provider)));
    let Some(of) = of else {
        return Ok(builder.with_no_client_auth());
    };
    let (chain, key) = identity(of)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| CallError::new(error.to_string()))
}

/// Whether the certificate that a server showed is that of a node: its user, or, if it names no node at all, a host name.
pub(super) fn check_node(shown: &[CertificateDer<'_>], node: &str) -> Result<(), NodeCertificateError> {
    let certificate = shown.first().and_then(|shown| Certificate::from_der(shown).ok());
    let certificate = certificate.ok_or(NodeCertificateError::Unreadable)?;
    let is_named = match certificate.identity.common_name.strip_prefix("system:node:") {
        Some(name) => name == node,
        None => certificate.names.hosts().iter().any(|name| name == node),
    };
    if is_named {
        return Ok(());
    }
    Err(NodeCertificateError::OtherName {
        subject: go::quote(&certificate.identity.common_name),
        node: go::quote(node),
    })
}

fn identity(of: &NodeClient) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CallError> {
    let chain = read_certificates(&of.certificate);
    let chain = chain.map_err(|error| CallError::new(format!("the certificate for nodes: {error}")))?;
    let key =
        read_private_key(&of.key).map_err(|error| CallError::new(format!("the key for nodes: {error}")))?;
    Ok((chain, key))
}

/// Accepts any certificate: requests proxied to pods are not verified, as upstream.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl CertificateVerifier for AcceptAnyCertificate {
    fn verify(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: UnixTime,
    ) -> Result<(), rustls::Error> {
        Ok(())
    }
}

/// Believes what the authorities have signed; and a certificate that is itself among them, as those do who sign their own.
#[derive(Debug)]
struct AuthorityVerifier {
    /// `None` if there are no authorities at all.
    chains: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
}

// --- AuthorityVerifier ---

impl AuthorityVerifier {
    /// Whether a directly trusted certificate is valid for this server now.
    fn check_own(
        certificate: &CertificateDer<'_>,
        server: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        verify_server_name(&ParsedCertificate::try_from(certificate)?, server)?;
        let read = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let time = |seconds: i64| {
            UnixTime::since_unix_epoch(std::time::Duration::from_secs(
                u64::try_from(seconds).unwrap_or_default(),
            ))
        };
        let not_before = time(read.not_before);
        let not_after = time(read.not_after);
        if now.as_secs() > not_after.as_secs() {
            return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
        }
        if now.as_secs() < not_before.as_secs() {
            return Err(CertificateError::NotValidYetContext {
                time: now,
                not_before,
            }
            .into());
        }
        Ok(())
    }
}

impl CertificateVerifier for AuthorityVerifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if self.trusted.iter().any(|trusted| trusted == certificate) {
            return Self::check_own(certificate, server, now);
        }
        match &self.chains {
            Some(chains) => chains
                .verify_server_cert(certificate, intermediates, server, &[], now)
                .map(drop),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}
