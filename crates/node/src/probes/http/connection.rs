//! One request over a connection of its own.

use std::{
    error::Error as _,
    io,
    pin::pin,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::http1::handshake,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::probes::tcp::refusal;

/// How much of an answer is read, in bytes.
const BODY: usize = 10 * 1024;

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The beginning of the body.
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// Before it began.
    Before(String),
    /// In the middle of it.
    InBody(String),
}

/// Accepts whoever answers.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

/// Sends a request to where the address leads.
pub(super) async fn send(url: &Uri, request: Request<Empty<Bytes>>) -> Result<Answer, Failure> {
    let before = |why: String| Failure::Before(why);
    let bracketed = url.host().unwrap_or_default();
    let host = bracketed.trim_start_matches('[').trim_end_matches(']');
    let secure = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|error| before(refusal(host, port, &error)))?;
    if !secure {
        return exchange(TokioIo::new(stream), request).await;
    }
    let config = SECURE.clone().map_err(before)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| before(error.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.map_err(|error| before(secured(&error)))?;
    exchange(TokioIo::new(stream), request).await
}

async fn exchange<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<Answer, Failure>
where
    S: Read + Write + Unpin,
{
    let before = |error: hyper::Error| Failure::Before(words(&error));
    let (mut sender, connection) = handshake(stream).await.map_err(before)?;
    let mut connection = pin!(connection);
    let mut answer = pin!(async move {
        let response = sender.send_request(request).await.map_err(before)?;
        read(response).await
    });
    tokio::select! {
        answer = &mut answer => answer,
        // The connection ends with the answer, which may be known a moment later.
        _ = &mut connection => answer.await,
    }
}

async fn read(response: http::Response<Incoming>) -> Result<Answer, Failure> {
    let (head, mut rest) = response.into_parts();
    let mut body = Vec::new();
    while body.len() < BODY {
        let Some(frame) = rest.frame().await else {
            break;
        };
        let frame = frame.map_err(|error| Failure::InBody(words(&error)))?;
        if let Ok(data) = frame.into_data() {
            body.extend_from_slice(&data);
        }
    }
    body.truncate(BODY);
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body,
    })
}

/// What went wrong with an exchange, as Go says it.
fn words(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return "EOF".to_owned();
    }
    let io = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
        Some(io::ErrorKind::BrokenPipe) => "write: broken pipe".to_owned(),
        _ => error.to_string(),
    }
}

fn secured(error: &io::Error) -> String {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidMessage(_)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(error) => format!("tls: {error}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}

static SECURE: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone());
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)));
    Ok(Arc::new(config.with_no_client_auth()))
});

// --- Anyone ---

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
