//! gRPC calls on the runtime's socket.
//!
//! Promises: the first call connects, and calls after a broken connection reconnect; every call has a timeout.

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

use super::error::CriError;

/// Maximum response size: stdout and stderr of a command have 16 MiB each.
const MAX_RESPONSE: usize = 64 << 20;

/// Timeout of connecting to the socket.
const CONNECT: Duration = Duration::from_secs(5);

/// Connection to the runtime.
#[derive(Clone)]
pub(super) struct CriConnection {
    channel: Channel,
    socket: PathBuf,
}

// --- CriConnection ---

impl CriConnection {
    /// Creates a connection, which connects at the first call. Must be called inside a Tokio runtime.
    pub(super) fn new(socket: &Path) -> Self {
        let path = socket.to_path_buf();
        let connector = service_fn(move |_: http::Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        CriConnection {
            // Only the Host header; servers on unix sockets ignore it.
            channel: Endpoint::from_static("http://localhost")
                .connect_timeout(CONNECT)
                .connect_with_connector_lazy(connector),
            socket: socket.to_path_buf(),
        }
    }

    /// Path of the socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Unary call.
    pub(super) async fn call<Q, R>(
        &self,
        method: &'static str,
        request: Q,
        limit: Duration,
    ) -> Result<R, CriError>
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
            Ok(Err(status)) => Err(CriError::Status(Box::new(status))),
            Err(_) => Err(CriError::Timeout(limit)),
        }
    }

    /// Server-streaming call. The timeout covers the response headers only.
    pub(super) async fn stream<Q, R>(
        &self,
        method: &'static str,
        request: Q,
        limit: Duration,
    ) -> Result<Streaming<R>, CriError>
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
            Ok(Err(status)) => Err(CriError::Status(Box::new(status))),
            Err(_) => Err(CriError::Timeout(limit)),
        }
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_RESPONSE);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }
}

impl fmt::Debug for CriConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CriConnection").field(&self.socket).finish()
    }
}

fn path(method: &'static str) -> http::uri::PathAndQuery {
    http::uri::PathAndQuery::from_static(method)
}
