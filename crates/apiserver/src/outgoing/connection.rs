//! Connections to webhooks, kept alive for the next call.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::{task::JoinHandle, time::Instant};
use tokio_rustls::TlsConnector;

use super::{
    CallError, Destination, DialRule, Dialer, destination::DestinationServer, error::handshake, service,
    trust,
};
use crate::cache::WatchCaches;

/// How many connections are kept for one destination, and for how long.
const MAX_IDLE: usize = 25;
const IDLE: Duration = Duration::from_secs(90);
/// The longest answer that is read.
const LONGEST_ANSWER: usize = 64 << 20;

/// A destination with its connections.
pub(super) struct WebhookEndpoint {
    to: Destination,
    connector: TlsConnector,
    dialer: Arc<Dialer>,
    /// Idle connections, the oldest first.
    idle: Mutex<Vec<(Instant, Connection)>>,
}

/// A connection; it ends with this handle.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// --- WebhookEndpoint ---

impl WebhookEndpoint {
    /// A destination without connections.
    pub(super) fn new(to: Destination, dialer: Arc<Dialer>) -> Result<Self, CallError> {
        let config = trust::client(&to.authorities)?;
        Ok(WebhookEndpoint {
            to,
            connector: TlsConnector::from(Arc::new(config)),
            dialer,
            idle: Mutex::default(),
        })
    }

    /// Posts JSON to a URL of this destination.
    pub(super) async fn post(
        &self,
        url: &str,
        body: Bytes,
        caches: &WatchCaches,
    ) -> Result<Bytes, CallError> {
        let (answer, connection) = self.send(url, body, caches).await?;
        let (head, body) = answer.into_parts();
        let media = head
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|media| media.to_str().ok())
            .unwrap_or_default();
        let body = Limited::new(body, LONGEST_ANSWER)
            .collect()
            .await
            .map_err(|error| {
                CallError::new(format!(
                    "unexpected error when reading response body. Please retry. Original error: {error}"
                ))
            })?;
        let body = body.to_bytes();
        self.keep(connection);
        let code = head.status.as_u16();
        if !(200..=206).contains(&code) {
            return Err(CallError::answer(code, media, &body));
        }
        if body.is_empty() {
            let media = if media.is_empty() {
                "application/json"
            } else {
                media
            };
            return Err(CallError::nothing(code, media));
        }
        Ok(body)
    }

    /// Sends a request, over a connection that is there if it takes it.
    async fn send(
        &self,
        url: &str,
        body: Bytes,
        caches: &WatchCaches,
    ) -> Result<(Response<Incoming>, Connection), CallError> {
        let failed = |error: hyper::Error| {
            let why = if error.is_incomplete_message() || error.is_closed() {
                "EOF".to_owned()
            } else {
                error.to_string()
            };
            CallError::post(url, why)
        };
        let mut request = self.request(url, body)?;
        while let Some(mut connection) = self.take() {
            if connection.sender.ready().await.is_err() {
                continue;
            }
            match connection.sender.try_send_request(request).await {
                Ok(answer) => return Ok((answer, connection)),
                // It never left: the other side had closed the connection.
                Err(mut error) => match error.take_message() {
                    Some(back) => request = back,
                    None => return Err(failed(error.into_error())),
                },
            }
        }
        let mut connection = self.connect(url, caches).await?;
        match connection.sender.send_request(request).await {
            Ok(answer) => Ok((answer, connection)),
            Err(error) => Err(failed(error)),
        }
    }

    fn request(&self, url: &str, body: Bytes) -> Result<Request<Full<Bytes>>, CallError> {
        let authority = self.to.authority();
        let path = url
            .strip_prefix("https://")
            .and_then(|rest| rest.strip_prefix(authority.as_str()))
            .unwrap_or("/");
        Request::post(path)
            .header(header::HOST, authority)
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(body))
            .map_err(|error| CallError::post(url, error))
    }

    async fn connect(&self, url: &str, caches: &WatchCaches) -> Result<Connection, CallError> {
        let failed = |why: String| CallError::post(url, why);
        let mut rule = DialRule::Webhook;
        let (host, port) = match &self.to.server {
            DestinationServer::Host { host, port, .. } => (host.clone(), *port),
            DestinationServer::Service {
                namespace,
                name,
                port,
            } => {
                rule = DialRule::WebhookService;
                service::resolve(caches, namespace, name, *port)
                    .map_err(|error| CallError::post(url, error))?
            }
        };
        let dialled = self.dialer.connect(rule, &host, port).await;
        let stream = dialled.map_err(|error| failed(error.to_string()))?;
        let server = self.to.server_name();
        let name = ServerName::try_from(server.clone()).map_err(|error| failed(error.to_string()))?;
        let stream = self
            .connector
            .connect(name, stream)
            .await
            .map_err(|error| failed(handshake(&error, &server)))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| failed(error.to_string()))?;
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "webhook connection closed with an error");
            }
        });
        Ok(Connection { sender, task })
    }

    /// The connection that was used last, if it is not too old.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let now = Instant::now();
        idle.retain(|(since, connection)| now - *since < IDLE && !connection.sender.is_closed());
        idle.pop().map(|(_, connection)| connection)
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE && !connection.sender.is_closed() {
            idle.push((Instant::now(), connection));
        }
    }
}
