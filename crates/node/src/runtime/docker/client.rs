//! HTTP client of the Docker Engine API on a unix socket: JSON calls, streamed responses, and hijacked connections.
//!
//! Existing client libraries were rejected: they parse states as closed enums, of which Podman has more, and then fail the whole response;
//! they guess from bytes whether a stream is multiplexed; and they log container environments.
//!
//! Promises: every call has a timeout; connections are reused; dropping a call closes its connection; a request that was sent is never
//! sent again.

mod query_string;
mod response_stream;

use std::{
    path::{Path, PathBuf},
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
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{net::UnixStream, task::JoinSet, time::timeout};

pub(super) use self::{query_string::query_string, response_stream::ResponseStream};
use crate::runtime::RuntimeError;

/// Maximum number of idle connections.
const MAX_IDLE: usize = 8;

/// Timeout of most calls.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of creating and starting a container.
pub(super) const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Client of one daemon, for one API version.
pub(super) struct DockerClient {
    socket: PathBuf,
    /// Path prefix, such as `/v1.41`.
    prefix: String,
    /// Connections without a call.
    idle: Mutex<Vec<PooledConnection>>,
}

/// A connection and its driver task. Dropping it closes the connection.
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinSet<()>,
}

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// Cannot connect, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// The daemon returned an error.
    #[error("{message}")]
    Status {
        /// HTTP status code.
        code: u16,
        /// Message of the daemon.
        message: String,
    },
    /// Timeout.
    #[error("no response within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The response cannot be parsed.
    #[error("invalid response: {0}")]
    InvalidResponse(String),
}

#[derive(Deserialize)]
struct ErrorResponse {
    message: String,
}

// --- DockerClient ---

impl DockerClient {
    pub(super) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_path_buf(),
            prefix: String::new(),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Sets the API version, such as `1.41`.
    pub(super) fn with_version(self, version: &str) -> Self {
        Self {
            prefix: format!("/v{version}"),
            ..self
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str, limit: Duration) -> Result<T, CallError> {
        let answer = self.call(Method::GET, path, Bytes::new(), limit).await?;
        from_json(&answer)
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<T, CallError> {
        let answer = self.call(Method::POST, path, to_json(body)?, limit).await?;
        from_json(&answer)
    }

    /// Posts JSON, and ignores the response body.
    pub(super) async fn send(
        &self,
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Result<(), CallError> {
        self.call(Method::POST, path, to_json(body)?, limit)
            .await
            .map(drop)
    }

    /// Posts without a body, and ignores the response body.
    pub(super) async fn post_empty(&self, path: &str, limit: Duration) -> Result<(), CallError> {
        self.call(Method::POST, path, Bytes::new(), limit).await.map(drop)
    }

    pub(super) async fn delete(&self, path: &str, limit: Duration) -> Result<(), CallError> {
        self.call(Method::DELETE, path, Bytes::new(), limit)
            .await
            .map(drop)
    }

    /// Posts a tar archive, and returns the response body.
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
        with_timeout(limit, self.send_and_collect(Request::from_parts(parts, body))).await
    }

    /// Sends a request with a streamed response. The timeout covers the response headers only.
    pub(super) async fn stream(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, String)],
        limit: Duration,
    ) -> Result<ResponseStream, CallError> {
        let mut request = self.request(method, path, Bytes::new())?;
        for (name, value) in headers {
            let value = value
                .parse()
                .map_err(|error| CallError::InvalidResponse(format!("{name}: {error}")))?;
            request.headers_mut().insert(name, value);
        }
        with_timeout(limit, async {
            let mut line = self.connect().await?;
            let response = line
                .sender
                .send_request(request)
                .await
                .map_err(connection_error)?;
            let response = check_status(response).await?;
            Ok(ResponseStream::new(response.into_body(), line.driver))
        })
        .await
    }

    /// Hijacks the connection of a call: afterwards it carries the stdin and output of a process.
    pub(super) async fn hijack(
        &self,
        path: &str,
        body: Bytes,
        limit: Duration,
    ) -> Result<Upgraded, CallError> {
        let mut request = self.request(Method::POST, path, body)?;
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, header::HeaderValue::from_static("tcp"));
        with_timeout(limit, async {
            let (mut sender, connection) = self.handshake().await?;
            // The connection task ends with the upgrade; only then may its bytes be read.
            let exchange = async {
                let response = sender.send_request(request).await.map_err(connection_error)?;
                let response = check_status(response).await?;
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    return Err(CallError::InvalidResponse(format!(
                        "HTTP status {} instead of an upgrade",
                        response.status()
                    )));
                }
                hyper::upgrade::on(response).await.map_err(connection_error)
            };
            let drive = async {
                // Readers of the upgraded connection get its errors.
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
        with_timeout(limit, self.send_and_collect(self.request(method, path, body)?)).await
    }

    /// Sends a request on an idle or new connection, and reads the whole response.
    async fn send_and_collect(&self, mut request: Request<Full<Bytes>>) -> Result<Bytes, CallError> {
        let (line, response) = loop {
            let used = self.take_idle();
            let is_new = used.is_none();
            let mut line = match used {
                Some(line) => line,
                None => self.connect().await?,
            };
            match line.sender.try_send_request(request).await {
                Ok(response) => break (line, response),
                Err(mut error) => match error.take_message() {
                    // The engine closed the idle connection, and nothing was sent: retry on another.
                    Some(message) if !is_new => request = message,
                    _ => return Err(connection_error(error.into_error())),
                },
            }
        };
        let answer = match check_status(response).await {
            Ok(response) => response
                .into_body()
                .collect()
                .await
                .map_err(connection_error)?
                .to_bytes(),
            Err(error) => {
                self.return_to_pool(line);
                return Err(error);
            }
        };
        self.return_to_pool(line);
        Ok(answer)
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, CallError> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, "engine")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| CallError::InvalidResponse(error.to_string()))
    }

    async fn connect(&self) -> Result<PooledConnection, CallError> {
        let (sender, connection) = self.handshake().await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The caller gets the error with the response.
            let _ = connection.await;
        });
        Ok(PooledConnection { sender, driver })
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
        http1::handshake(TokioIo::new(stream))
            .await
            .map_err(connection_error)
    }

    fn take_idle(&self) -> Option<PooledConnection> {
        let mut idle = self.idle.lock();
        while let Some(line) = idle.pop() {
            if line.sender.is_ready() {
                return Some(line);
            }
        }
        None
    }

    fn return_to_pool(&self, line: PooledConnection) {
        if line.sender.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(line);
        }
    }
}

// --- CallError ---

impl CallError {
    /// Returns whether the requested object does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Status { code: 404, .. })
    }

    /// Converts to a runtime error of operation `what`.
    pub(super) fn into_runtime_error(self, runtime: &str, what: &str) -> RuntimeError {
        match self {
            Self::Unreachable(reason) => RuntimeError::Unreachable {
                runtime: runtime.to_owned(),
                reason,
            },
            Self::Status { code: 404, message } => RuntimeError::NotFound(message),
            Self::Status { message, .. } => RuntimeError::OperationFailed(message),
            Self::Timeout(after) => RuntimeError::Timeout {
                what: what.to_owned(),
                after,
            },
            Self::InvalidResponse(_) => RuntimeError::OperationFailed(format!("{what}: {self}")),
        }
    }
}

async fn with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    timeout(limit, work)
        .await
        .unwrap_or(Err(CallError::Timeout(limit)))
}

/// Returns error responses as errors. 304 means that nothing had to change, such as starting a running container.
async fn check_status(response: Response<Incoming>) -> Result<Response<Incoming>, CallError> {
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED || status == StatusCode::SWITCHING_PROTOCOLS
    {
        return Ok(response);
    }
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(connection_error)?
        .to_bytes();
    let message = kubecontroller::decode::from_slice::<ErrorResponse>(&body).map_or_else(
        |_| String::from_utf8_lossy(&body).trim().to_owned(),
        |error_response| error_response.message.trim().to_owned(),
    );
    Err(CallError::Status {
        code: status.as_u16(),
        message,
    })
}

fn to_json(body: &impl Serialize) -> Result<Bytes, CallError> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| CallError::InvalidResponse(error.to_string()))
}

fn from_json<T: DeserializeOwned>(answer: &[u8]) -> Result<T, CallError> {
    kubecontroller::decode::from_slice(answer).map_err(|error| CallError::InvalidResponse(error.to_string()))
}

#[expect(clippy::needless_pass_by_value, reason = "signature of `map_err`")]
fn connection_error(error: hyper::Error) -> CallError {
    use std::error::Error;
    let reason = error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    CallError::Unreachable(reason)
}
