//! Sends one request over a new connection.

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

use crate::probes::dial::dial_error_message;

/// Limit of the body; the rest is not read.
// upstream: pkg/probe/http/http.go DoHTTPProbe
const MAX_BODY_BYTES: usize = 10 * 1024;

#[derive(Debug)]
pub(super) struct ProbeResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The first bytes of the body.
    pub(super) body: Vec<u8>,
}

/// Why there is no complete response.
#[derive(Debug)]
pub(super) enum RequestError {
    /// No response was received.
    NoResponse(String),
    /// The connection broke while the body was read.
    IncompleteBody(hyper::Error),
}

/// Accepts any server certificate: see the module documentation of `http`.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

pub(super) async fn send(url: &Uri, request: Request<Empty<Bytes>>) -> Result<ProbeResponse, RequestError> {
    let no_response = |reason: String| RequestError::NoResponse(reason);
    let url_host = url.host().unwrap_or_default();
    let host = url_host.trim_start_matches('[').trim_end_matches(']');
    let is_https = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|error| no_response(dial_error_message(host, port, &error)))?;
    if !is_https {
        return send_over(TokioIo::new(stream), request).await;
    }
    let config = TLS_CONFIG
        .clone()
        .map_err(|error| no_response(error.to_string()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| no_response(error.to_string()))?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    let stream = stream.map_err(|error| no_response(tls_error_message(&error)))?;
    send_over(TokioIo::new(stream), request).await
}

async fn send_over<S>(stream: S, request: Request<Empty<Bytes>>) -> Result<ProbeResponse, RequestError>
where
    S: Read + Write + Unpin,
{
    let no_response = |error: hyper::Error| RequestError::NoResponse(http_error_message(&error));
    let (mut sender, connection) = handshake(stream).await.map_err(no_response)?;
    let mut connection = pin!(connection);
    let mut response = pin!(async move {
        let response = sender.send_request(request).await.map_err(no_response)?;
        read_response(response).await
    });
    tokio::select! {
        response = &mut response => response,
        // The connection future may finish first, but the response is already buffered then.
        _ = &mut connection => response.await,
    }
}

async fn read_response(response: http::Response<Incoming>) -> Result<ProbeResponse, RequestError> {
    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    while body.len() < MAX_BODY_BYTES {
        let Some(frame) = incoming.frame().await else {
            break;
        };
        let frame = frame.map_err(RequestError::IncompleteBody)?;
        if let Ok(data) = frame.into_data() {
            body.extend_from_slice(&data);
        }
    }
    body.truncate(MAX_BODY_BYTES);
    Ok(ProbeResponse {
        status: head.status,
        headers: head.headers,
        body,
    })
}

/// The message of Go's HTTP client for an error.
pub(super) fn http_error_message(error: &hyper::Error) -> String {
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

/// The message of Go's HTTP client for an error of the TLS handshake.
fn tls_error_message(error: &io::Error) -> String {
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

static TLS_CONFIG: LazyLock<Result<Arc<ClientConfig>, rustls::Error>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone());
    let config = config.with_safe_default_protocol_versions()?;
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificateVerifier(provider)));
    Ok(Arc::new(config.with_no_client_auth()))
});

// --- AnyCertificateVerifier ---

impl ServerCertVerifier for AnyCertificateVerifier {
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
