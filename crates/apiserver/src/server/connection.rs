//! Connections: TLS, HTTP/1.1 or HTTP/2, and an orderly end.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::handler::Handler;
use crate::authn::{Peer, ShownCertificate};

/// How long a client may take to agree on TLS, and to send its headers.
const PATIENCE: Duration = Duration::from_secs(10);
const HEADER_PATIENCE: Duration = Duration::from_secs(32);
/// How long requests under way may take when the server stops.
const DRAIN: Duration = Duration::from_secs(5);
/// How long to wait when the machine has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Limits of HTTP.
const HEADER_BYTES: u32 = 1024 * 1024;
const STREAMS: u32 = 250;

/// Takes connections until `stop` is ready.
pub(super) async fn serve(
    handler: &Arc<Handler>,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: impl Future<Output = ()> + Send,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let server = Arc::new(builder());
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    let watcher = graceful.watcher();
                    let (handler, acceptor, server) = (Arc::clone(handler), acceptor.clone(), Arc::clone(&server));
                    connections.spawn(async move {
                        let mut peer = Peer {
                            address: Some(address),
                            certificate: None,
                        };
                        // Small answers must not wait for more to come.
                        let _ = stream.set_nodelay(true);
                        let Some(acceptor) = acceptor else {
                            return run(stream, peer, handler, &server, watcher).await;
                        };
                        if let Some(stream) = handshake(stream, &acceptor).await {
                            let shown = stream.get_ref().1.peer_certificates();
                            peer.certificate = shown.and_then(ShownCertificate::new);
                            run(stream, peer, handler, &server, watcher).await;
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut stop => break,
        }
    }
    drop(listener);
    handler.end_watches();
    if time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests took too long and were cut off");
    }
    connections.shutdown().await;
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_PATIENCE)
        .max_buf_size(HEADER_BYTES as usize)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    builder
}

async fn handshake(stream: TcpStream, acceptor: &TlsAcceptor) -> Option<TlsStream<TcpStream>> {
    match time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a client did not agree on TLS");
            None
        }
        Err(_) => None,
    }
}

async fn run(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    handler: Arc<Handler>,
    server: &auto::Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let peer = Arc::new(peer);
    let service = service_fn(move |request| {
        let (handler, peer) = (Arc::clone(&handler), Arc::clone(&peer));
        async move { Ok::<_, std::convert::Infallible>(handler.handle(request, &peer).await) }
    });
    let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended");
    }
}
