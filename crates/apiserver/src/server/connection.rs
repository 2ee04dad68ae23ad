//! Connections: TLS, HTTP/1.1 or HTTP/2, and an orderly end.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Version, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time::{self, Instant},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::idle_timeout::{HttpProtocol, IdleTimeout, IdleTimeoutStream};
use crate::{
    authn::{ClientCertificate, ConnectionPeer},
    http::sent,
    outgoing::{ByteStream, UpgradeTunnel},
    pipeline::HandlerChain,
};

/// How long a client may take to agree on TLS.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long requests under way may take when the server stops, and when their connection has been idle for too long.
const DRAIN: Duration = Duration::from_secs(5);
const GOODBYE: Duration = Duration::from_secs(1);
/// How long to wait when no connection can be accepted, and how often that is logged.
const PAUSE: Duration = Duration::from_millis(50);
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Limits of HTTP.
const HEADER_BYTES: u32 = 1024 * 1024;
const STREAMS: u32 = 100;
/// How many requests may be taken back before they are looked at, and how many may be wrong, until the connection is ended.
const RESETS: usize = 20;
const FAULTS: usize = 256;

/// How long a connection without an announced end waits for a request that may be under way when the server stops.
const QUIET: Duration = Duration::from_millis(200);
/// How long TLS may take when the server stops.
const LAST_HANDSHAKE: Duration = Duration::from_secs(1);
/// For how long, when the server stops, connections are accepted that the kernel has already; and the pause that ends that.
const BACKLOG: Duration = Duration::from_millis(500);
const BACKLOG_QUIET: Duration = Duration::from_millis(10);

const PLAIN_HTTP_ANSWER: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// How much of such a request is read.
const PLAIN_HTTP_DRAIN: u64 = 64 * 1024;

/// The connections of a listener.
struct ListenerConnections {
    handler: Arc<HandlerChain>,
    acceptor: Option<TlsAcceptor>,
    server: Arc<auto::Builder<TokioExecutor>>,
    /// Changes when the server stops.
    ends: watch::Receiver<()>,
    running: JoinSet<()>,
}

/// Takes connections until `stop` is ready.
///
/// Boxed here: so what connections do is compiled with this crate, not with each that serves.
// upstream: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go Serve, RunServer
#[inline(never)]
pub(super) fn serve<'a>(
    handler: &'a Arc<HandlerChain>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: BoxFuture<'a, ()>,
) -> BoxFuture<'a, ()> {
    Box::pin(take(handler, listener, tls, stop))
}

async fn take(
    handler: &Arc<HandlerChain>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    mut stop: BoxFuture<'_, ()>,
) {
    let (end, ends) = watch::channel(());
    let mut connections = ListenerConnections {
        handler: Arc::clone(handler),
        acceptor: tls.map(TlsAcceptor::from),
        server: Arc::new(builder()),
        ends,
        running: JoinSet::new(),
    };
    let mut last_logged: Option<Instant> = None;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => connections.begin(stream, address),
                // The one that comes next may find room again.
                Err(error) => {
                    if last_logged.is_none_or(|last_logged| last_logged.elapsed() > LOG_INTERVAL) {
                        tracing::warn!(%error, "a connection could not be taken");
                        last_logged = Some(Instant::now());
                    }
                    time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.running.join_next(), if !connections.running.is_empty() => {}
            () = &mut stop => break,
        }
    }
    drop(end);
    // Clients that connected before the stop have perhaps sent a request, and the kernel has accepted it.
    let backlog = async {
        while let Ok(Ok((stream, address))) = time::timeout(BACKLOG_QUIET, listener.accept()).await {
            connections.begin(stream, address);
        }
    };
    let _ = time::timeout(BACKLOG, backlog).await;
    drop(listener);
    handler.end_watches();
    let mut running = connections.running;
    let all = async { while running.join_next().await.is_some() {} };
    if time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!("requests aborted at shutdown after the drain timeout");
    }
    running.shutdown().await;
    handler.end_writes(DRAIN).await;
}

// --- ListenerConnections ---

impl ListenerConnections {
    fn begin(&mut self, stream: TcpStream, address: SocketAddr) {
        let handler = Arc::clone(&self.handler);
        let acceptor = self.acceptor.clone();
        let server = Arc::clone(&self.server);
        let ends = self.ends.clone();
        self.running.spawn(async move {
            let mut peer = ConnectionPeer {
                address: Some(address),
                ..ConnectionPeer::default()
            };
            // Small answers must not wait for more to come.
            let _ = stream.set_nodelay(true);
            let Some(acceptor) = acceptor else {
                return run(
                    Box::new(stream),
                    IdleTimeout::new(HttpProtocol::Http1),
                    peer,
                    handler,
                    &server,
                    ends,
                )
                .await;
            };
            let mut stopping = ends.clone();
            let stopped = async move {
                let _ = stopping.changed().await;
                time::sleep(LAST_HANDSHAKE).await;
            };
            let stream = tokio::select! {
                stream = handshake(stream, &acceptor, &handler) => stream,
                () = stopped => None,
            };
            if let Some(stream) = stream {
                let session = stream.get_ref().1;
                let protocol = match session.alpn_protocol() {
                    Some(b"h2") => HttpProtocol::Http2,
                    _ => HttpProtocol::Http1,
                };
                let idle_timeout = IdleTimeout::new(protocol);
                peer.certificate = session.peer_certificates().and_then(ClientCertificate::new);
                run(Box::new(stream), idle_timeout, peer, handler, &server, ends).await;
            }
        });
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // [`IdleTimeout`] handles this, and distinguishes idle from slow connections.
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES as usize)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES)
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(FAULTS)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

async fn handshake(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    handler: &HandlerChain,
) -> Option<TlsStream<TcpStream>> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = stream;
    if let Ok(true) = time::timeout_at(deadline, is_plain_http(&stream)).await {
        handler.tls_failed();
        let _ = time::timeout_at(deadline, refuse_plain_http(&mut stream)).await;
        return None;
    }
    match time::timeout_at(deadline, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
    handler.tls_failed();
    None
}

/// Whether a client speaks HTTP where TLS is expected.
async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut begin = [0; 5];
    let Ok(5) = stream.peek(&mut begin).await else {
        return false;
    };
    [
        b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO", b"PATCH", b"DELET",
    ]
    .contains(&&begin)
}

/// Answers as upstream's server does, so that the user sees what is wrong: Go's HTTP server has this sentence.
async fn refuse_plain_http(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(PLAIN_HTTP_ANSWER).await?;
    stream.shutdown().await?;
    // What the client has still to send is read, or the answer is lost with the connection.
    let mut rest = stream.take(PLAIN_HTTP_DRAIN);
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.map(drop)
}

/// Whether the server stops.
fn has_ended(ends: &watch::Receiver<()>) -> bool {
    ends.has_changed().is_err()
}

async fn run(
    stream: Box<dyn ByteStream>,
    idle_timeout: Arc<IdleTimeout>,
    peer: ConnectionPeer,
    handler: Arc<HandlerChain>,
    server: &auto::Builder<TokioExecutor>,
    mut ends: watch::Receiver<()>,
) {
    let peer = Arc::new(peer);
    let end = Arc::new(Notify::new());
    let io = TokioIo::new(IdleTimeoutStream::new(stream, &idle_timeout));
    let last_logged = Arc::clone(&end);
    let upgraded_timeout = Arc::clone(&idle_timeout);
    let next: Arc<Mutex<Option<UpgradeTunnel>>> = Arc::default();
    let following = Arc::clone(&next);
    let ending = ends.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        let peer = Arc::clone(&peer);
        let end = Arc::clone(&last_logged);
        let idle_timeout = Arc::clone(&upgraded_timeout);
        let next = Arc::clone(&following);
        let ending = ending.clone();
        idle_timeout.begin();
        // Made at once: also a request that is given up before it is looked at has ended.
        let busy = idle_timeout.answer(crate::http::ResponseBody::Empty);
        async move {
            let is_http2 = request.version() == Version::HTTP_2;
            let mut answer = handler.handle(request.map(sent), &peer, &end).await;
            if let Some(tunnel) = answer.extensions_mut().remove::<UpgradeTunnel>() {
                busy.upgrade();
                *next.lock() = Some(tunnel);
            } else if !is_http2 && has_ended(&ending) {
                // The client learns with the answer that no other request will be read.
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, std::convert::Infallible>(answer.map(|body| busy.with(body)))
        }
    });
    let mut connection = pin!(server.serve_connection_with_upgrades(io, service));
    let mut look = pin!(time::sleep(idle_timeout.left().unwrap_or_default()));
    let mut quiet = pin!(time::sleep(QUIET));
    let mut stops = false;
    let mut is_quiet = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            // Nothing is ever sent: the other end is dropped when the server stops.
            _ = ends.changed(), if !stops => {
                stops = true;
                // HTTP/2 announces the end and answers what was sent before the client knew of it. HTTP/1.1, and a connection without
                // a request yet, would just be closed: what is under way gets a moment to arrive.
                is_quiet = !idle_timeout.can_announce_end();
                if is_quiet {
                    quiet.as_mut().reset(Instant::now() + QUIET);
                } else {
                    connection.as_mut().graceful_shutdown();
                }
            }
            () = quiet.as_mut(), if is_quiet => {
                is_quiet = false;
                connection.as_mut().graceful_shutdown();
            }
            () = end.notified() => connection.as_mut().graceful_shutdown(),
            () = look.as_mut() => {
                let Some(left) = idle_timeout.left() else {
                    connection.as_mut().graceful_shutdown();
                    match time::timeout(GOODBYE, connection).await {
                        Ok(ended) => break ended,
                        Err(_) => return,
                    }
                };
                look.as_mut().reset(Instant::now() + left);
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
    // What was HTTP may be something else now, for as long as both sides like, or until the server stops.
    let tunnel = next.lock().take();
    if let Some(tunnel) = tunnel.and_then(|tunnel| tunnel.take())
        && !stops
    {
        tokio::select! {
            () = tunnel => {}
            _ = ends.changed() => {}
        }
    }
}
