//! Calls of a runtime over its socket.
//!
//! Promises: the socket is connected to when it is first needed, and again after it was lost; no call takes longer than its limit.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::failure::Failure;

/// The largest answer: a command's output and errors are 16 MiB each.
const MOST: usize = 64 << 20;

/// The longest wait for the socket itself.
const CONNECT: Duration = Duration::from_secs(5);

/// A runtime's socket.
#[derive(Clone)]
pub(super) struct Connection {
    channel: Channel,
    socket: PathBuf,
}

// --- Connection ---

impl Connection {
    /// Connects with the first call. Must be called inside a Tokio runtime.
    pub(super) fn new(socket: &Path) -> Self {
        let path = socket.to_path_buf();
        let connector = service_fn(move |_: http::Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        Connection {
            // The name is what the peer sees as host, and nobody looks at it.
            channel: Endpoint::from_static("http://localhost")
                .connect_timeout(CONNECT)
                .connect_with_connector_lazy(connector),
            socket: socket.to_path_buf(),
        }
    }

    /// Where it is.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks, and waits for the answer.
    pub(super) async fn call<Q, R>(
        &self,
        method: &'static str,
        request: Q,
        limit: Duration,
    ) -> Result<R, Failure>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let answer = async {
            let mut grpc = self.ready().await?;
            grpc.unary(Request::new(request), path(method), ProstCodec::<Q, R>::default())
                .await
        };
        match timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Failure::Status(Box::new(status))),
            Err(_) => Err(Failure::Late(limit)),
        }
    }

    /// Asks, and takes answers for as long as there are any. The limit is for the first sign of them.
    pub(super) async fn stream<Q, R>(
        &self,
        method: &'static str,
        request: Q,
        limit: Duration,
    ) -> Result<Streaming<R>, Failure>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let answer = async {
            let mut grpc = self.ready().await?;
            grpc.server_streaming(Request::new(request), path(method), ProstCodec::<Q, R>::default())
                .await
        };
        match timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Failure::Status(Box::new(status))),
            Err(_) => Err(Failure::Late(limit)),
        }
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MOST);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.socket).finish()
    }
}

fn path(method: &'static str) -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static(method)
}
