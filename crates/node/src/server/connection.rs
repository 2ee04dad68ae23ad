//! TLS, HTTP/1.1, and an orderly end.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use k3_pki::{Certificate, Identity};
use kubecontroller::manager::Stop;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time,
};
use tokio_rustls::TlsAcceptor;

use super::handler::{Conversation, Handler};

/// How long a client may take to agree on TLS, and to send the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
const HEAD: Duration = Duration::from_secs(32);
/// The longest head of a request.
const HEAD_BYTES: usize = 64 << 10;
/// How long to wait when the machine has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);
/// How long requests under way may take when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// Takes connections until it is stopped.
pub(super) async fn serve(
    handler: &Arc<Handler>,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    stop: Stop,
) {
    let mut tls = (*tls).clone();
    // Conversations begin with an upgrade, which only this version has.
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
                    connections.spawn(async move { run(stream, &acceptor, handler, stop).await });
                }
                // The one that comes next may find room again.
                Err(error) => {
                    tracing::warn!(%error, "a connection to the node could not be taken");
                    time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = stop.stopped() => break,
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    // What is not done by then is cut off.
    let _ = time::timeout(DRAIN, all).await;
    connections.shutdown().await;
}

async fn run(stream: TcpStream, acceptor: &TlsAcceptor, handler: Arc<Handler>, stop: Stop) {
    // A key that is typed must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let stream = match time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a client of the node did not agree on TLS");
            return;
        }
        Err(_) => return,
    };
    // Who shows a certificate was verified by TLS; here it is only read.
    let shown: Option<Arc<Identity>> = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|chain| read_identity(chain.first()?))
        .map(Arc::new);
    let next: Arc<Mutex<Option<Conversation>>> = Arc::default();
    let service = service_fn(|request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        let shown = shown.clone();
        let next = Arc::clone(&next);
        async move {
            let (reply, conversation) = handler.handle(request, shown.as_deref()).await;
            *next.lock().unwrap_or_else(PoisonError::into_inner) = conversation;
            Ok::<_, Infallible>(reply)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
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
        tracing::debug!(%error, "a connection to the node ended");
    }
    let conversation = next.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(conversation) = conversation {
        tokio::select! {
            () = conversation => {}
            () = stop.stopped() => {}
        }
    }
}

/// Whom a certificate is for, by the same reading as the API server's; `None` if it cannot be read, or names nobody.
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
        for (sort, name) in names {
            params.distinguished_name.push(sort.clone(), *name);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_names_a_user_and_groups() {
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
