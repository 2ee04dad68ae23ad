//! Who judges the certificates of servers. Whether a server has the key of the one it shows is always checked.

use std::{fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Says whether a certificate is that of the server that is meant.
pub trait CertificateVerifier: fmt::Debug + Send + Sync {
    /// Judges a certificate, and those between it and an authority.
    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error>;
}

/// A judge, as TLS asks for one.
#[derive(Debug)]
pub struct TlsVerifier<J> {
    judge: J,
    algorithms: WebPkiSupportedAlgorithms,
}

// --- TlsVerifier ---

impl<J: CertificateVerifier> TlsVerifier<J> {
    /// With the algorithms of a provider.
    pub fn new(judge: J, provider: &Arc<CryptoProvider>) -> Self {
        TlsVerifier {
            judge,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl<J: CertificateVerifier> ServerCertVerifier for TlsVerifier<J> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.judge.judge(certificate, intermediates, server, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
