//! Connections of the kubelet API: TLS, HTTP/1.1, graceful shutdown.
// upstream: pkg/kubelet/server/server.go ListenAndServeKubeletServer

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use k3_pki::{Certificate, Identity};
use kubecontroller::manager::Stop;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};
use tokio_rustls::TlsAcceptor;

use super::handler::{Handler, UpgradedSession};

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of receiving the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// Maximum size of the header of a request.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// Delay after a failed accept, for example for lack of file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Timeout of running requests when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts connections until `stop` is stopped.
pub(super) async fn serve(
    handler: &Arc<Handler>,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    stop: Stop,
) {
    let mut tls = (*tls).clone();
    // HTTP/2 has no `Upgrade`, which streaming requests need.
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let handler = Arc::clone(handler);
                    let acceptor = acceptor.clone();
                    let stop = stop.clone();
                    connections.spawn(async move { serve_connection(stream, &acceptor, handler, stop).await });
                }
                // The error may be temporary: keep accepting.
                Err(error) => {
                    tracing::warn!(%error, "failed to accept connection to the kubelet API");
                    time::sleep(ACCEPT_BACKOFF).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stop.stopped() => break,
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    // The remaining connections are aborted.
    let _ = time::timeout(DRAIN_TIMEOUT, all).await;
    connections.shutdown().await;
}

async fn serve_connection(stream: TcpStream, acceptor: &TlsAcceptor, handler: Arc<Handler>, stop: Stop) {
    // Single keystrokes of interactive sessions are sent without delay.
    let _ = stream.set_nodelay(true);
    let stream = match time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    // TLS has verified the certificate; here its subject is only read.
    let identity: Option<Arc<Identity>> = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| read_identity(chain.first()?))
        .map(Arc::new);
    let next: Arc<Mutex<Option<UpgradedSession>>> = Arc::default();
    let service = service_fn(|request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        let identity = identity.clone();
        let next = Arc::clone(&next);
        async move {
            let (reply, session) = handler.handle(request, identity.as_deref()).await;
            *next.lock() = session;
            Ok::<_, Infallible>(reply)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection to the kubelet API failed");
    }
    // The session runs after hyper has handed over the upgraded connection.
    let session = next.lock().take();
    if let Some(session) = session {
        tokio::select! {
            () = session => {}
            () = stop.stopped() => {}
        }
    }
}

/// The user of a certificate, read like the API server reads it; `None` if it cannot be parsed or has no common name.
fn read_identity(certificate: &[u8]) -> Option<Identity> {
    let identity = Certificate::from_der(certificate).ok()?.identity;
    let is_user = !identity.common_name.is_empty() && identity.uids.len() <= 1;
    is_user.then_some(identity)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn reads_user_and_groups_of_certificate() {
        let bytes = certificate(&[
            (DnType::OrganizationName, "system:masters"),
            (DnType::CommonName, "admin"),
        ]);
        let identity = read_identity(&bytes).unwrap();
        assert_eq!(identity.common_name, "admin");
        assert_eq!(identity.organizations, ["system:masters"]);
        assert_eq!(
            read_identity(&certificate(&[(DnType::OrganizationName, "x")])),
            None
        );
        for cut in 0..bytes.len() {
            assert_eq!(read_identity(&bytes[..cut]), None);
        }
    }
}
