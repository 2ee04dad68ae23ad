//! HTTP to a daemon on a unix socket: calls that answer with JSON, answers that go on, and connections taken over for streams.
//!
//! A library for this API was tried and left: it reads states as closed lists, of which Podman knows more, and then refuses whole
//! answers; it guesses from bytes whether a stream has frames; and it writes environments of containers to the log.
//!
//! Promises: every call has a limit; connections are used again; a call that is dropped closes its connection; nothing that was
//! sent is sent twice.

mod query;
mod streaming;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{net::UnixStream, task::JoinSet, time::timeout};

pub(super) use self::{query::query, streaming::Streaming};
use crate::runtime::RuntimeError;

/// Connections that are kept while nobody uses them.
const IDLE: usize = 8;

/// What most calls may take.
pub(super) const QUICK: Duration = Duration::from_secs(30);
/// What making and starting a container may take.
pub(super) const START: Duration = Duration::from_mins(2);

/// A daemon, and the version of the API that is spoken with it.
pub(super) struct Client {
    socket: PathBuf,
    /// Stands before every path: `/v1.41`.
    prefix: String,
    /// Connections on which nothing is under way.
    idle: Mutex<Vec<Line>>,
}

/// A connection, and the task that moves its bytes. Dropping it closes it.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinSet<()>,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// Nobody listens, or who listened went away.
    #[error("{0}")]
    Unreachable(String),
    /// The daemon refused.
    #[error("{message}")]
    Status {
        /// As in HTTP.
        code: u16,
        /// In the daemon's words.
        message: String,
    },
    /// Nothing came in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// What came makes no sense.
    #[error("the answer cannot be read: {0}")]
    Garbled(String),
}

#[derive(Deserialize)]
struct Refusal {
    message: String,
}

// --- Client ---

impl Client {
    pub(super) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_path_buf(),
            prefix: String::new(),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Speaks this version of the API, such as `1.41`, from now on.
    pub(super) fn with_version(self, version: &str) -> Self {
        Self {
            prefix: format!("/v{version}"),
            ..self
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, CallError> {
        let answer = self.call(Method::GET, path, Bytes::new(), limit).await?;
        read(&answer)
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, CallError> {
        let answer = self.call(Method::POST, path, written(body)?, limit).await?;
        read(&answer)
    }

    /// Sends something, and does not read what the answer says.
    pub(super) async fn send(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<(), CallError> {
        self.call(Method::POST, path, written(body)?, limit)
            .await
            .map(drop)
    }

    /// A call whose answer says nothing.
    pub(super) async fn order(&self, path: &str, limit: Duration) -> Result<(), CallError> {
        self.call(Method::POST, path, Bytes::new(), limit).await.map(drop)
    }

    pub(super) async fn delete(&self, path: &str, limit: Duration) -> Result<(), CallError> {
        self.call(Method::DELETE, path, Bytes::new(), limit)
            .await
            .map(drop)
    }

    /// Sends something that is not JSON, and reads the whole answer.
    pub(super) async fn upload(
        &self,
        path: &str,
        content: Bytes,
        limit: Duration,
    ) -> Result<Bytes, CallError> {
        let request = self.request(Method::POST, path, content)?;
        let (mut parts, body) = request.into_parts();
        let tar = header::HeaderValue::from_static("application/x-tar");
        parts.headers.insert(header::CONTENT_TYPE, tar);
        within(limit, self.whole(Request::from_parts(parts, body))).await
    }

    /// A call whose answer goes on until it is dropped. The limit is for its beginning.
    pub(super) async fn stream(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, String)],
        limit: Duration,
    ) -> Result<Streaming, CallError> {
        let mut request = self.request(method, path, Bytes::new())?;
        for (name, value) in headers {
            let value = value
                .parse()
                .map_err(|error| CallError::Garbled(format!("{name}: {error}")))?;
            request.headers_mut().insert(name, value);
        }
        within(limit, async {
            let mut line = self.connect().await?;
            let response = line.sender.send_request(request).await.map_err(lost)?;
            let response = succeeded(response).await?;
            Ok(Streaming::new(response.into_body(), line.driver))
        })
        .await
    }

    /// A call after which the connection is ours: what is written goes to a process, what is read comes from it.
    pub(super) async fn take_over(
        &self,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Upgraded, CallError> {
        let mut request = self.request(Method::POST, path, body)?;
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, header::HeaderValue::from_static("tcp"));
        within(limit, async {
            let (mut sender, connection) = self.handshake().await?;
            // The connection's own task ends with the upgrade: only then are its bytes ours.
            let exchange = async {
                let response = sender.send_request(request).await.map_err(lost)?;
                let response = succeeded(response).await?;
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    return Err(CallError::Garbled(format!(
                        "{} instead of a stream",
                        response.status()
                    )));
                }
                hyper::upgrade::on(response).await.map_err(lost)
            };
            let drive = async {
                // Its failures are seen by who reads from it.
                let _ = connection.with_upgrades().await;
            };
            let (upgraded, ()) = tokio::join!(exchange, drive);
            upgraded
        })
        .await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Bytes, CallError> {
        within(limit, self.whole(self.request(method, path, body)?)).await
    }

    /// Sends a request on a connection that is idle, or on a new one, and reads all that comes.
    async fn whole(&self, mut request: Request<Full<Bytes>>) -> Result<Bytes, CallError> {
        let (line, response) = loop {
            let used = self.idle_line();
            let is_new = used.is_none();
            let mut line = match used {
                Some(line) => line,
                None => self.connect().await?,
            };
            match line.sender.try_send_request(request).await {
                Ok(response) => break (line, response),
                Err(mut error) => match error.take_message() {
                    // It was closed while it was idle, and nothing was sent.
                    Some(message) if !is_new => request = message,
                    _ => return Err(lost(error.into_error())),
                },
            }
        };
        let answer = match succeeded(response).await {
            Ok(response) => response.into_body().collect().await.map_err(lost)?.to_bytes(),
            Err(error) => {
                self.keep(line);
                return Err(error);
            }
        };
        self.keep(line);
        Ok(answer)
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, CallError> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, "engine")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| CallError::Garbled(error.to_string()))
    }

    async fn connect(&self) -> Result<Line, CallError> {
        let (sender, connection) = self.handshake().await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // Its failures are seen by who waits for the answer.
            let _ = connection.await;
        });
        Ok(Line { sender, driver })
    }

    async fn handshake(
        &self,
    ) -> Result<
        (
            SendRequest<Full<Bytes>>,
            http1::Connection<TokioIo<UnixStream>, Full<Bytes>>,
        ),
        CallError,
    > {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| CallError::Unreachable(error.to_string()))?;
        http1::handshake(TokioIo::new(stream)).await.map_err(lost)
    }

    fn idle_line(&self) -> Option<Line> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(line) = idle.pop() {
            if line.sender.is_ready() {
                return Some(line);
            }
        }
        None
    }

    fn keep(&self, line: Line) {
        if line.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(line);
        }
    }
}

// --- CallError ---

impl CallError {
    /// Whether the daemon does not know what was asked for.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { code: 404, .. })
    }

    /// What it is to those who asked `what` of the runtime.
    pub(super) fn during(self, runtime: &str, what: &str) -> RuntimeError {
        match self {
            Self::Unreachable(reason) => RuntimeError::Unreachable {
                runtime: runtime.to_owned(),
                reason,
            },
            Self::Status { code: 404, message } => RuntimeError::NotFound(message),
            Self::Status { message, .. } => RuntimeError::Refused(message),
            Self::Timeout(after) => RuntimeError::Timeout {
                what: what.to_owned(),
                after,
            },
            Self::Garbled(_) => RuntimeError::Refused(format!("{what}: {self}")),
        }
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    timeout(limit, work)
        .await
        .unwrap_or(Err(CallError::Timeout(limit)))
}

/// A refusal as an error. `304` is "as it is already".
async fn succeeded(response: Response<Incoming>) -> Result<Response<Incoming>, CallError> {
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED || status == StatusCode::SWITCHING_PROTOCOLS
    {
        return Ok(response);
    }
    let body = response.into_body().collect().await.map_err(lost)?.to_bytes();
    let message = kubecontroller::decode::from_slice::<Refusal>(&body).map_or_else(
        |_| String::from_utf8_lossy(&body).trim().to_owned(),
        |refusal| refusal.message.trim().to_owned(),
    );
    Err(CallError::Status {
        code: status.as_u16(),
        message,
    })
}

fn written(body: &impl Serialize) -> Result<Bytes, CallError> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| CallError::Garbled(error.to_string()))
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, CallError> {
    kubecontroller::decode::from_slice(answer).map_err(|error| CallError::Garbled(error.to_string()))
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn lost(error: hyper::Error) -> CallError {
    use std::error::Error;
    let reason = error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    CallError::Unreachable(reason)
}
