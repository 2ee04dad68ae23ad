//! The calls of a plugin, over its socket.

use std::{collections::BTreeMap, path::Path, time::Duration};

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, time::timeout};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::service_fn;
use zeroize::Zeroizing;

use super::object::DekSource;

/// A plugin.
pub(super) struct KmsClient {
    channel: Channel,
    timeout: Duration,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The plugin does not respond; a retry may succeed.
    #[error("{0}")]
    Unavailable(String),
    /// The plugin answered with an error.
    #[error("{0}")]
    Refused(String),
}

/// How a plugin is, and which key it encrypts with.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(string, tag = "2")]
    pub(super) healthz: String,
    #[prost(string, tag = "3")]
    pub(super) key_id: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

/// A DEK as encrypted by a plugin.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

// --- KmsClient ---

// upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/grpc_service.go NewGRPCService
impl KmsClient {
    /// Connects with the first call, and again after the connection was lost. Must be called inside a Tokio runtime.
    pub(super) fn new(socket: &Path, timeout: Duration) -> Self {
        let path = socket.to_owned();
        let connector = service_fn(move |_: http::Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        Self {
            channel: Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector),
            timeout,
        }
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, CallError> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {})
            .await
    }

    pub(super) async fn encrypt(&self, uid: String, plaintext: &[u8]) -> Result<EncryptResponse, CallError> {
        let request = EncryptRequest {
            plaintext: plaintext.to_vec(),
            uid,
        };
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(super) async fn decrypt(
        &self,
        uid: String,
        source: &DekSource,
    ) -> Result<Zeroizing<Vec<u8>>, CallError> {
        let request = DecryptRequest {
            ciphertext: source.encrypted.clone(),
            uid,
            key_id: source.key_id.clone(),
            annotations: source.annotations.clone(),
        };
        let response: DecryptResponse = self.call("/v2.KeyManagementService/Decrypt", request).await?;
        Ok(Zeroizing::new(response.plaintext))
    }

    async fn call<Q, R>(&self, path: &'static str, request: Q) -> Result<R, CallError>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let method = path.rsplit('/').next().unwrap_or(path);
        let answer = async {
            let mut grpc = Grpc::new(self.channel.clone());
            let ready = grpc.ready().await;
            ready.map_err(|error| Status::unavailable(error.to_string()))?;
            let codec = ProstCodec::<Q, R>::default();
            let path = PathAndQuery::from_static(path);
            grpc.unary(Request::new(request), path, codec).await
        };
        match timeout(self.timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => {
                let why = format!("{method}: {}: {}", status.code(), status.message());
                match status.code() {
                    Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => {
                        Err(CallError::Unavailable(why))
                    }
                    _ => Err(CallError::Refused(why)),
                }
            }
            Err(_) => Err(CallError::Unavailable(format!(
                "{method}: no answer within {:?}",
                self.timeout
            ))),
        }
    }
}
