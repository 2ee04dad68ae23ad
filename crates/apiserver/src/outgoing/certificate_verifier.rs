//! Verification of server certificates. Possession of the private key is always verified.

use std::{fmt, sync::Arc};

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Verifies that a certificate is that of the intended server.
pub trait CertificateVerifier: fmt::Debug + Send + Sync {
    /// Verifies a certificate with its intermediates.
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), rustls::Error>;
}

/// A [`CertificateVerifier`] as a rustls verifier.
#[derive(Debug)]
pub struct TlsVerifier<J> {
    verify: J,
    algorithms: WebPkiSupportedAlgorithms,
}

// --- TlsVerifier ---

impl<J: CertificateVerifier> TlsVerifier<J> {
    /// With the algorithms of a provider.
    pub fn new(verify: J, provider: &Arc<CryptoProvider>) -> Self {
        TlsVerifier {
            verify,
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
        self.verify.verify(certificate, intermediates, server, now)?;
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
