//! Connections: TLS, HTTP/1.1 or HTTP/2, and an orderly end.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::Request;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinSet,
    time::{self, Instant},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    handler::Handler,
    pulse::{Felt, Pulse},
};
use crate::{
    authn::{Peer, ShownCertificate},
    http::sent,
    outgoing::{Stream, Tunnel},
};

/// How long a client may take to agree on TLS.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long requests under way may take when the server stops, and when their connection has been idle for too long.
const DRAIN: Duration = Duration::from_secs(5);
const GOODBYE: Duration = Duration::from_secs(1);
/// How long to wait when the machine has no room for another connection, and how often that is told.
const PAUSE: Duration = Duration::from_millis(50);
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Limits of HTTP.
const HEADER_BYTES: u32 = 1024 * 1024;
const STREAMS: u32 = 100;
/// How many requests may be taken back before they are looked at, and how many may be wrong, until the connection is ended.
const RESETS: usize = 20;
const FAULTS: usize = 256;

/// Takes connections until `stop` is ready.
///
/// Boxed here: so what connections do is compiled with this crate, not with each that serves.
#[inline(never)]
pub(super) fn serve<'a>(
    handler: &'a Arc<Handler>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: BoxFuture<'a, ()>,
) -> BoxFuture<'a, ()> {
    Box::pin(take(handler, listener, tls, stop))
}

async fn take(
    handler: &Arc<Handler>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    mut stop: BoxFuture<'_, ()>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let server = Arc::new(builder());
    let (end, ends) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut told: Option<Instant> = None;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let (handler, acceptor, server, ends) =
                        (Arc::clone(handler), acceptor.clone(), Arc::clone(&server), ends.clone());
                    connections.spawn(async move {
                        let mut peer = Peer {
                            address: Some(address),
                            ..Peer::default()
                        };
                        // Small answers must not wait for more to come.
                        let _ = stream.set_nodelay(true);
                        let Some(acceptor) = acceptor else {
                            return run(Box::new(stream), Pulse::new(true), peer, handler, &server, ends).await;
                        };
                        if let Some(stream) = handshake(stream, &acceptor, &handler).await {
                            let session = stream.get_ref().1;
                            let pulse = Pulse::new(session.alpn_protocol() != Some(b"h2"));
                            peer.certificate = session.peer_certificates().and_then(ShownCertificate::new);
                            run(Box::new(stream), pulse, peer, handler, &server, ends).await;
                        }
                    });
                }
                // The one that comes next may find room again.
                Err(error) => {
                    if told.is_none_or(|told| told.elapsed() > TELL_EVERY) {
                        tracing::warn!(%error, "a connection could not be taken");
                        told = Some(Instant::now());
                    }
                    time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stop => break,
        }
    }
    drop(listener);
    handler.end_watches();
    drop(end);
    let all = async { while connections.join_next().await.is_some() {} };
    if time::timeout(DRAIN, all).await.is_err() {
        tracing::warn!("some requests took too long and were cut off");
    }
    connections.shutdown().await;
    handler.end_writes(DRAIN).await;
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The pulse of the connection sees to that, and tells idle ones from slow ones.
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
    handler: &Handler,
) -> Option<TlsStream<TcpStream>> {
    match time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
        Err(_) => tracing::debug!("a client took too long to agree on TLS"),
    }
    handler.no_tls();
    None
}

async fn run(
    stream: Box<dyn Stream>,
    pulse: Arc<Pulse>,
    peer: Peer,
    handler: Arc<Handler>,
    server: &auto::Builder<TokioExecutor>,
    mut ends: watch::Receiver<()>,
) {
    let peer = Arc::new(peer);
    let end = Arc::new(Notify::new());
    let io = TokioIo::new(Felt::new(stream, &pulse));
    let (told, felt) = (Arc::clone(&end), Arc::clone(&pulse));
    let next: Arc<Mutex<Option<Tunnel>>> = Arc::default();
    let following = Arc::clone(&next);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, peer, end, pulse, next) = (
            Arc::clone(&handler),
            Arc::clone(&peer),
            Arc::clone(&told),
            Arc::clone(&felt),
            Arc::clone(&following),
        );
        pulse.begin();
        // Made at once: also a request that is given up before it is looked at has ended.
        let busy = pulse.answer(crate::http::Body::Empty);
        async move {
            let mut answer = handler.handle(request.map(sent), &peer, &end).await;
            if let Some(tunnel) = answer.extensions_mut().remove::<Tunnel>() {
                *next.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
            }
            Ok::<_, std::convert::Infallible>(answer.map(|body| busy.with(body)))
        }
    });
    let mut connection = pin!(server.serve_connection_with_upgrades(io, service));
    let mut look = pin!(time::sleep(pulse.left().unwrap_or_default()));
    let mut stops = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            // Nothing is ever sent: the other end goes when the server stops.
            _ = ends.changed(), if !stops => {
                stops = true;
                connection.as_mut().graceful_shutdown();
            }
            () = end.notified() => connection.as_mut().graceful_shutdown(),
            () = look.as_mut() => {
                let Some(left) = pulse.left() else {
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
    let tunnel = next.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(tunnel) = tunnel.and_then(|tunnel| tunnel.take())
        && !stops
    {
        tokio::select! {
            () = tunnel => {}
            _ = ends.changed() => {}
        }
    }
}
