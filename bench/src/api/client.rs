//! Clients of the server: HTTP/1.1 over TLS, proven by the certificate in a kubeconfig.

use std::{fs, net::SocketAddr, path::Path, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header,
};
use hyper_util::rt::TokioIo;
use k3_pki::{read_certificates, read_private_key};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::Value;
use tokio::{net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::BenchError;

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// Where a server is, and how to prove who we are.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: TlsConnector,
}

/// One connection, kept alive between calls. Dropping it closes it.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// Moves the bytes.
    _driver: JoinSet<()>,
}

/// A request that has not been sent.
pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Bytes,
}

/// The answer.
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

// --- Endpoint ---

impl Endpoint {
    /// The content of a kubeconfig, as k3 writes it: one server, one user, everything inside.
    pub(crate) fn read(kubeconfig: &Path) -> Result<Self, BenchError> {
        let text = fs::read_to_string(kubeconfig)?;
        let address = field(&text, "server: https://")?.parse()?;
        let mut roots = RootCertStore::empty();
        for authority in read_certificates(&decoded(&text, "certificate-authority-data: ")?)? {
            roots.add(authority)?;
        }
        let chain = read_certificates(&decoded(&text, "client-certificate-data: ")?)?;
        let key = read_private_key(&decoded(&text, "client-key-data: ")?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        Ok(Self {
            address,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// A connection for bytes as they are.
    pub(crate) async fn stream(&self) -> Result<TlsStream<TcpStream>, BenchError> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        Ok(self.tls.connect(name, tcp).await?)
    }

    pub(crate) async fn connect(&self) -> Result<Connection, BenchError> {
        let stream = self.stream().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // A broken connection is an error of the call that needs it.
            let _ = connection.await;
        });
        Ok(Connection {
            sender,
            host: self.address.to_string(),
            _driver: driver,
        })
    }

    pub(crate) async fn connections(&self, count: usize) -> Result<Vec<Connection>, BenchError> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(self.connect().await?);
        }
        Ok(connections)
    }
}

/// What follows `name` on its line.
fn field<'text>(kubeconfig: &'text str, name: &str) -> Result<&'text str, BenchError> {
    let mut lines = kubeconfig.lines().map(str::trim);
    let found = lines.find_map(|line| line.strip_prefix(name));
    found.ok_or_else(|| format!("the kubeconfig has no `{}`", name.trim_end()).into())
}

fn decoded(kubeconfig: &str, name: &str) -> Result<Vec<u8>, BenchError> {
    Ok(STANDARD.decode(field(kubeconfig, name)?)?)
}

// --- Connection ---

impl Connection {
    /// Sends, and waits for the whole answer.
    pub(crate) async fn call(&mut self, call: ApiRequest) -> Result<ApiResponse, BenchError> {
        let response = self.send(call).await?;
        Ok(ApiResponse {
            status: response.status().as_u16(),
            body: response.into_body().collect().await?.to_bytes(),
        })
    }

    /// Sends, and waits for the head of the answer.
    pub(crate) async fn send(&mut self, call: ApiRequest) -> Result<Response<Incoming>, BenchError> {
        self.sender.ready().await?;
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(header::HOST, &self.host)
            .header(header::ACCEPT, JSON)
            .header(header::USER_AGENT, "k3-bench");
        if !call.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, call.content_type);
        }
        Ok(self
            .sender
            .send_request(request.body(Full::new(call.body))?)
            .await?)
    }
}

// --- ApiRequest ---

impl ApiRequest {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::empty(Method::GET, path.into())
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::empty(Method::DELETE, path.into())
    }

    pub(crate) fn post(path: impl Into<String>, object: &Value) -> Self {
        Self::with(Method::POST, path.into(), JSON, object)
    }

    pub(crate) fn put(path: impl Into<String>, object: &Value) -> Self {
        Self::with(Method::PUT, path.into(), JSON, object)
    }

    pub(crate) fn patch(path: impl Into<String>, content_type: &'static str, patch: &Value) -> Self {
        Self::with(Method::PATCH, path.into(), content_type, patch)
    }

    /// A POST of JSON that may be wrong.
    pub(crate) fn raw(path: impl Into<String>, body: Bytes) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            content_type: JSON,
            body,
        }
    }

    /// A request with a body of some type.
    pub(crate) fn of(
        method: Method,
        path: impl Into<String>,
        content_type: &'static str,
        body: Bytes,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            content_type,
            body,
        }
    }

    fn empty(method: Method, path: String) -> Self {
        Self {
            method,
            path,
            content_type: "",
            body: Bytes::new(),
        }
    }

    fn with(method: Method, path: String, content_type: &'static str, body: &Value) -> Self {
        Self {
            method,
            path,
            content_type,
            body: body.to_string().into(),
        }
    }
}

// --- ApiResponse ---

impl ApiResponse {
    /// Whether the status is one of these; if not, what was said instead.
    pub(crate) fn expect(&self, statuses: &[u16]) -> Result<(), String> {
        if statuses.contains(&self.status) {
            return Ok(());
        }
        let beginning = &self.body[..self.body.len().min(300)];
        Err(format!("{}: {}", self.status, String::from_utf8_lossy(beginning)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_read_by_its_lines() {
        let text = "clusters:\n- cluster:\n    server: https://127.0.0.1:6443\n    client-key-data: a2V5\n";
        assert_eq!(field(text, "server: https://").unwrap(), "127.0.0.1:6443");
        assert_eq!(decoded(text, "client-key-data: ").unwrap(), b"key");
        let missing = decoded(text, "client-certificate-data: ").unwrap_err();
        assert!(
            missing.to_string().contains("`client-certificate-data:`"),
            "{missing}"
        );
    }
}
