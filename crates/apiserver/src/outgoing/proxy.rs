//! The proxy to nodes, pods and services, with upgrades (exec, attach, port-forward).
//!
//! Promises: a client's credentials stay here. Bytes are tunnelled only after the other side agreed to it, and then as they are,
//! in both directions, each of which ends on its own. What is passed on ends with its client.

use std::{
    error::Error,
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    task::JoinHandle,
    time,
};
use tokio_rustls::TlsConnector;

use super::{AddressError, DialError, DialRule, Dialer, error::handshake, trust};
use crate::http::{BodyStream, HttpResponse, RequestBody, ResponseBody};

/// The dial timeout.
const DIAL: Duration = Duration::from_secs(30);
/// Headers that are about one connection, and go no further.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Where a request is passed on to.
#[derive(Clone)]
pub(crate) struct ProxyLocation {
    /// How TLS is spoken there; `None` without it.
    pub tls: Option<Arc<ClientConfig>>,
    /// A name or a number.
    pub host: String,
    pub port: u16,
    /// The path as it is written in URLs.
    pub path: String,
    /// The query as it is written in URLs; perhaps empty.
    pub query: String,
    /// What makes the connection.
    pub dialer: Arc<Dialer>,
    /// Which addresses may be dialled.
    pub rule: DialRule,
    /// The node whose certificate the other side must have; `None` if it need not be a node.
    pub node: Option<String>,
}

/// A client's request.
pub(crate) struct ProxyRequest {
    pub method: Method,
    pub headers: HeaderMap,
    /// Path and query as they were sent.
    pub path: String,
    pub query: String,
    /// Which host was asked for.
    pub host: String,
    /// Where it came from.
    pub peer: Option<IpAddr>,
    /// The connection, if it can become something else than HTTP.
    pub upgrade: Option<OnUpgrade>,
    pub body: RequestBody,
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyError {
    /// The address must not be dialled, and was not.
    #[error(transparent)]
    NotAllowed(AddressError),
    /// The connection failed.
    #[error("{0}")]
    Dial(String),
    /// It broke off.
    #[error("{0}")]
    Aborted(String),
}

/// What follows an answer after which a connection speaks something else. Copies are the same.
#[derive(Clone)]
pub(crate) struct UpgradeTunnel(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

/// A task that ends with this handle.
struct AbortOnDrop(JoinHandle<()>);

/// A streamed response body.
struct RelayedBody {
    body: Incoming,
    is_broken: bool,
    _connection: AbortOnDrop,
}

/// A byte stream.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

// --- ProxyLocation ---

impl ProxyLocation {
    /// The whole URL.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.target())
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Path and query.
    fn target(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        if self.query.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", self.query)
        }
    }

    async fn connect(&self) -> Result<Box<dyn ByteStream>, ProxyError> {
        let dialling = self.dialer.connect(self.rule, &self.host, self.port);
        let dialled = time::timeout(DIAL, dialling)
            .await
            .map_err(|_| ProxyError::Dial(format!("dial tcp {}: i/o timeout", self.authority())))?
            .map_err(|error| match error {
                DialError::NotAllowed(why) => ProxyError::NotAllowed(why),
                DialError::Failed(why) => ProxyError::Dial(why),
            })?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(dialled));
        };
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| ProxyError::Dial(error.to_string()))?;
        let shaken = TlsConnector::from(Arc::clone(tls)).connect(name, dialled);
        let stream = time::timeout(DIAL, shaken)
            .await
            .map_err(|_| ProxyError::Dial("net/http: TLS handshake timeout".to_owned()))?
            .map_err(|error| ProxyError::Dial(handshake(&error, &self.host)))?;
        if let Some(node) = &self.node {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            trust::check_node(shown, node).map_err(|error| ProxyError::Dial(error.to_string()))?;
        }
        Ok(Box::new(stream))
    }

    /// Sends a GET and streams the response.
    pub(crate) async fn get(&self) -> Result<HttpResponse, ProxyError> {
        let request = Request::get(self.target())
            .header(header::HOST, self.authority())
            .header(header::USER_AGENT, "kube-apiserver")
            .body(nothing())
            .map_err(|error| ProxyError::Dial(error.to_string()))?;
        let (response, connection) = self.send(request).await?;
        Ok(relay(response, connection))
    }

    /// Asks for it, and gives all of the answer if it is one of success, and no longer than `max`.
    pub(crate) async fn fetch(&self, max: usize) -> Result<Bytes, ProxyError> {
        let request = Request::get(self.target())
            .header(header::HOST, self.authority())
            .header(header::USER_AGENT, "kube-apiserver")
            .body(nothing())
            .map_err(|error| ProxyError::Dial(error.to_string()))?;
        let (response, _connection) = self.send(request).await?;
        let code = response.status();
        let body = Limited::new(response.into_body(), max).collect().await;
        let body = body
            .map_err(|error| ProxyError::Aborted(error.to_string()))?
            .to_bytes();
        if code != StatusCode::OK {
            let response_text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            return Err(ProxyError::Aborted(format!("{code}: {response_text}")));
        }
        Ok(body)
    }

    async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, AbortOnDrop), ProxyError> {
        let stream = self.connect().await?;
        let broken = |error: hyper::Error| {
            ProxyError::Aborted(if error.is_incomplete_message() || error.is_closed() {
                "EOF".to_owned()
            } else {
                error.to_string()
            })
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = AbortOnDrop(tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "proxied connection closed with an error");
            }
        }));
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok((response, task))
    }

    /// Proxies an upgrade request (exec, attach, port-forward).
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go tryUpgrade
    pub(crate) async fn converse(&self, passed: ProxyRequest) -> Result<HttpResponse, ProxyError> {
        let ProxyRequest {
            method,
            mut headers,
            host,
            peer,
            upgrade,
            ..
        } = passed;
        let broken = |why: &str| ProxyError::Aborted(why.to_owned());
        let client = upgrade.ok_or_else(|| broken("request connection cannot be hijacked"))?;
        strip_credentials(&mut headers);
        forwarded_for(&mut headers, peer);
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::TRANSFER_ENCODING);
        let request = self.request(method, headers, &host, nothing())?;
        let (mut response, connection) = self.send(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            if response.status().as_u16() < 400 {
                let code = response.status().as_u16();
                return Err(ProxyError::Aborted(format!(
                    "invalid upgrade response: status code {code}"
                )));
            }
            return Ok(relay(response, connection));
        }
        let server = hyper::upgrade::on(&mut response);
        let (head, _) = response.into_parts();
        let mut answer = HttpResponse::new(ResponseBody::Empty);
        *answer.status_mut() = head.status;
        *answer.headers_mut() = head.headers;
        let tunnel = async move {
            let _connection = connection;
            if let Err(error) = tunnel(client, server).await {
                tracing::debug!(%error, "proxied stream aborted");
            }
        };
        answer.extensions_mut().insert(UpgradeTunnel::new(tunnel));
        Ok(answer)
    }

    /// Proxies a request and its response.
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go ServeHTTP
    pub(crate) async fn pass(&self, passed: ProxyRequest) -> Result<HttpResponse, ProxyError> {
        let ProxyRequest {
            method,
            mut headers,
            host,
            peer,
            body,
            ..
        } = passed;
        strip_credentials(&mut headers);
        strip_connection(&mut headers);
        forwarded_for(&mut headers, peer);
        let request = self.request(method, headers, &host, body)?;
        let (response, connection) = self.send(request).await?;
        Ok(relay(response, connection))
    }

    fn request(
        &self,
        method: Method,
        headers: HeaderMap,
        host: &str,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, ProxyError> {
        let wrong = |error: http::Error| ProxyError::Aborted(error.to_string());
        let mut request = Request::builder()
            .method(method)
            .uri(self.target())
            .body(body)
            .map_err(wrong)?;
        *request.headers_mut() = headers;
        let host = HeaderValue::from_str(host)
            .or_else(|_| HeaderValue::from_str(&self.authority()))
            .map_err(|error| wrong(error.into()))?;
        request.headers_mut().insert(header::HOST, host);
        Ok(request)
    }
}

fn nothing() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// What a client proves who it is with is not for others.
fn strip_credentials(headers: &mut HeaderMap) {
    headers.remove(header::AUTHORIZATION);
    headers.remove(header::COOKIE);
    let of_users: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("impersonate-") || name.as_str().starts_with("x-remote-"))
        .cloned()
        .collect();
    for name in of_users {
        headers.remove(name);
    }
    // Nor is a token among the protocols of a WebSocket.
    let protocols: Vec<String> = headers
        .get_all(header::SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .filter(|protocol| !protocol.starts_with("base64url.bearer.authorization.k8s.io."))
        .collect();
    headers.remove(header::SEC_WEBSOCKET_PROTOCOL);
    if let Ok(value) = HeaderValue::from_str(&protocols.join(", "))
        && !protocols.is_empty()
    {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, value);
    }
}

/// Headers that are about the connection of the client.
fn strip_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

/// Adds `X-Forwarded-For`.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/net/http.go AppendForwardedForHeader
fn forwarded_for(headers: &mut HeaderMap, peer: Option<IpAddr>) {
    const FORWARDED: &str = "x-forwarded-for";
    let Some(peer) = peer else { return };
    let mut all: Vec<String> = headers
        .get_all(FORWARDED)
        .iter()
        .filter_map(|value| value.to_str().ok().map(ToOwned::to_owned))
        .collect();
    all.push(peer.to_string());
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED, value);
    }
}

/// A streamed response without hop-by-hop headers.
fn relay(response: Response<Incoming>, connection: AbortOnDrop) -> HttpResponse {
    let (mut head, body) = response.into_parts();
    strip_connection(&mut head.headers);
    let mut answer = HttpResponse::new(ResponseBody::Stream(Box::new(RelayedBody {
        body,
        is_broken: false,
        _connection: connection,
    })));
    *answer.status_mut() = head.status;
    *answer.headers_mut() = head.headers;
    answer
}

/// Carries bytes both ways until both directions have ended.
async fn tunnel(client: OnUpgrade, server: OnUpgrade) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (client, server) = tokio::try_join!(client, server)?;
    let io = |upgraded: Upgraded| TokioIo::new(upgraded);
    let mut client = io(client);
    let mut server = io(server);
    copy_bidirectional(&mut client, &mut server)
        .await
        .map_err(io::Error::other)?;
    Ok(())
}

// --- ProxyRequest ---

impl ProxyRequest {
    /// Whether the client wants its connection to become something else than HTTP, and it can.
    // upstream: staging/src/k8s.io/apimachinery/pkg/util/httpstream/httpstream.go IsUpgradeRequest
    pub(crate) fn wants_upgrade(&self) -> bool {
        let mut connection = self.headers.get_all(header::CONNECTION).iter();
        self.upgrade.is_some()
            && connection.any(|value| {
                value
                    .to_str()
                    .is_ok_and(|value| value.to_ascii_lowercase().contains("upgrade"))
            })
    }
}

// --- UpgradeTunnel ---

impl UpgradeTunnel {
    fn new(tunnel: impl Future<Output = ()> + Send + 'static) -> Self {
        UpgradeTunnel(Arc::new(Mutex::new(Some(Box::pin(tunnel)))))
    }

    /// What is to be done, once.
    pub(crate) fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().take()
    }

    /// Keeps something for as long as it lasts.
    pub(crate) fn keep(&self, kept: impl Send + 'static) {
        let mut tunnel = self.0.lock();
        if let Some(running) = tunnel.take() {
            *tunnel = Some(Box::pin(async move {
                let _kept = kept;
                running.await;
            }));
        }
    }
}

// --- AbortOnDrop ---

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// --- RelayedBody ---

impl BodyStream for RelayedBody {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            return match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Ready(Some(Err(_))) => {
                    self.is_broken = true;
                    Poll::Ready(None)
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(data)),
                    Err(_) => continue,
                },
            };
        }
    }

    fn is_broken(&self) -> bool {
        self.is_broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn strips_credentials() {
        let mut sent = headers(&[
            ("authorization", "Bearer secret"),
            ("cookie", "session=secret"),
            ("impersonate-user", "root"),
            ("impersonate-extra-x", "y"),
            ("x-remote-user", "root"),
            (
                "sec-websocket-protocol",
                "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
            ),
            ("accept", "*/*"),
        ]);
        strip_credentials(&mut sent);
        assert_eq!(
            sent,
            headers(&[("accept", "*/*"), ("sec-websocket-protocol", "v4.channel.k8s.io")])
        );
    }

    #[test]
    fn strips_hop_by_hop_headers() {
        let mut sent = headers(&[
            ("connection", "close, x-own"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("x-other", "2"),
            ("x-forwarded-for", "1.2.3.4"),
        ]);
        strip_connection(&mut sent);
        forwarded_for(&mut sent, Some([10, 0, 0, 1].into()));
        assert_eq!(
            sent,
            headers(&[("x-other", "2"), ("x-forwarded-for", "1.2.3.4, 10.0.0.1")])
        );
    }

    #[test]
    fn brackets_ipv6_hosts() {
        let mut location = ProxyLocation {
            tls: None,
            host: "fd00::1".to_owned(),
            port: 80,
            path: String::new(),
            query: "a=b".to_owned(),
            dialer: Arc::default(),
            rule: DialRule::Proxy,
            node: None,
        };
        assert_eq!(location.url(), "http://[fd00::1]:80/?a=b");
        location.host = "10.0.0.1".to_owned();
        location.query.clear();
        assert_eq!(location.url(), "http://10.0.0.1:80/");
    }

    #[tokio::test]
    async fn reports_connection_failure() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let location = ProxyLocation {
            tls: None,
            host: "127.0.0.1".to_owned(),
            port,
            path: "/".to_owned(),
            query: String::new(),
            dialer: Arc::default(),
            rule: DialRule::Node,
            node: None,
        };
        let Err(ProxyError::Dial(why)) = location.get().await else {
            panic!("a server answered");
        };
        assert_eq!(
            why,
            format!("dial tcp 127.0.0.1:{port}: connect: connection refused")
        );
    }
}
