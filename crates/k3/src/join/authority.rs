//! The certificate authorities of a server, from its TLS handshake: verified by the hash in a join token, or by known
//! authorities that may have been rotated.

use std::{
    io,
    net::{TcpStream, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

use http::Uri;
use k3_apiserver::{CertificateVerifier, TlsVerifier};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use super::CertificatePin;
use crate::{command_error::CommandError, tls};

/// Timeout of the TLS handshake.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts any certificate chain during the handshake, to verify it afterwards.
#[derive(Debug)]
struct AnyServer;

/// Returns the authority of a server if its hash matches. Sends nothing to the server.
pub(super) async fn find_authority(
    server: &Uri,
    pin: CertificatePin,
) -> Result<CertificateDer<'static>, CommandError> {
    let anybody = Arc::new(TlsVerifier::new(AnyServer, &tls::provider()));
    let chain = fetch_chain(server, anybody).await.map_err(|error| {
        let advice = "see that the server runs, that it listens for other machines (--bind 0.0.0.0), and that nothing is\n\
            between it and this machine";
        CommandError::new(format!("cannot connect to {server}"), advice).caused_by(error)
    })?;
    let is_meant = |certificate: &CertificateDer<'_>| CertificatePin::of_certificate(certificate) == pin;
    chain.into_iter().find(is_meant).ok_or_else(|| {
        CommandError::new(
            format!("the certificate authority of the server at {server} does not match the token"),
            "it is another cluster, or the connection is intercepted; create a token with `k3 token create --join` there",
        )
    })
}

/// Returns the authorities of a server if a known authority signed its certificate. The handshake proves that the server has the
/// key, so its further authorities are trusted too.
pub(super) async fn current_authorities(
    server: &Uri,
    known: Vec<CertificateDer<'static>>,
) -> io::Result<Vec<CertificateDer<'static>>> {
    let mut roots = RootCertStore::empty();
    for authority in known {
        roots.add(authority).map_err(io::Error::other)?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls::provider())
        .build()
        .map_err(io::Error::other)?;
    let chain = fetch_chain(server, verifier).await?;
    Ok(chain.into_iter().skip(1).collect())
}

/// The certificate chain of a server, its own certificate first.
async fn fetch_chain(
    server: &Uri,
    verifier: Arc<dyn ServerCertVerifier>,
) -> io::Result<Vec<CertificateDer<'static>>> {
    let host = server.host().unwrap_or_default().to_owned();
    let port = server.port_u16().unwrap_or(443);
    tokio::task::spawn_blocking(move || handshake(&host, port, verifier))
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn handshake(
    host: &str,
    port: u16,
    verifier: Arc<dyn ServerCertVerifier>,
) -> io::Result<Vec<CertificateDer<'static>>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let config = ClientConfig::builder_with_provider(tls::provider())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = connect(host, port)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let chain = connection.peer_certificates().unwrap_or_default();
    Ok(chain.iter().map(|chain| chain.clone().into_owned()).collect())
}

fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

// --- AnyServer ---

impl CertificateVerifier for AnyServer {
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
