//! Exec and attach: the runtime returns a URL, and serves the streaming protocol of `kubectl exec` there.
//!
//! ```text
//! address     parses the URL, connects, upgrades
//! pipes       pipes between the connection and the caller
//! websocket   v5.channel.k8s.io: messages prefixed with a channel number
//! spdy        SPDY/3.1 client, the subset for this protocol
//! status      exit status on the error channel
//! ```
//!
//! `WebSockets` are tried first, but only with version 5 of the protocol: version 4 cannot close stdin, so that
//! `echo x | kubectl exec -i pod -- cat` would hang. CRI-O supports version 5 with conmon-rs. Other runtimes (containerd) reject the
//! handshake before they start the command; SPDY, which can close stdin, is used there. A URL is valid for one attempt, so the fallback
//! requests another one.

mod address;
mod pipes;
mod spdy;
mod status;
mod websocket;

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::time::timeout;

use crate::runtime::{ExecSpec, ProcessStreams, RuntimeError};

use self::{
    address::StreamAddress,
    pipes::{RuntimeEnds, create_pipes},
};

/// Timeout of opening a stream.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPurpose {
    /// A command; its exit status is always sent.
    Exec,
    /// The first process of the container; streams may end without a status.
    Attach,
}

/// Streaming protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProtocol {
    /// WebSocket, v5.channel.k8s.io.
    WebSocket,
    /// SPDY/3.1, v4.channel.k8s.io.
    Spdy,
}

/// Error of opening a stream.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The runtime does not support the protocol, and has started nothing.
    UnsupportedProtocol(String),
    /// Another error.
    Error(RuntimeError),
}

/// Opens a stream at the runtime's URL.
pub(super) async fn open(
    url: &str,
    protocol: StreamProtocol,
    spec: &ExecSpec,
    purpose: StreamPurpose,
) -> Result<ProcessStreams, StreamError> {
    let address = StreamAddress::parse(url).map_err(StreamError::Error)?;
    let stream = async {
        match protocol {
            StreamProtocol::WebSocket => Ok(OpenStream::WebSocket(Box::new(
                websocket::connect(&address).await?,
            ))),
            StreamProtocol::Spdy => Ok(OpenStream::Spdy(spdy::connect(&address).await?)),
        }
    };
    let timeout_error = || RuntimeError::Timeout {
        what: format!("streams at {address}"),
        after: OPEN_TIMEOUT,
    };
    let stream = timeout(OPEN_TIMEOUT, stream)
        .await
        .unwrap_or_else(|_| Err(StreamError::Error(timeout_error())))?;
    let (runtime_ends, client_ends) = create_pipes(spec);
    let pipes::ClientEnds {
        stdin,
        stdout,
        stderr,
        resize,
    } = client_ends;
    Ok(ProcessStreams {
        stdin,
        stdout,
        stderr,
        resize,
        done: stream.run(runtime_ends, purpose).boxed(),
    })
}

/// How a stream ended.
enum StreamEnd {
    /// With the exit status.
    Status(Bytes),
    /// With a normal close: conmon-rs sends a status only for failed commands.
    NormalClose,
    /// The connection was closed or broke.
    Disconnected,
}

enum OpenStream {
    WebSocket(Box<websocket::Socket>),
    Spdy(spdy::Socket),
}

impl OpenStream {
    async fn run(self, create_pipes: RuntimeEnds, purpose: StreamPurpose) -> Result<i32, RuntimeError> {
        let end = match self {
            OpenStream::WebSocket(socket) => websocket::run(*socket, create_pipes).await?,
            OpenStream::Spdy(socket) => spdy::run(socket, create_pipes).await?,
        };
        match (end, purpose) {
            (StreamEnd::Status(status), _) => status::exit_code(&status),
            (StreamEnd::NormalClose, _) | (StreamEnd::Disconnected, StreamPurpose::Attach) => Ok(0),
            (StreamEnd::Disconnected, StreamPurpose::Exec) => Err(RuntimeError::OperationFailed(
                "the streams ended before the command did".to_owned(),
            )),
        }
    }
}
