//! A KMS v2 plugin: gRPC over a unix socket. "Encrypting" is a table, as no test needs more.

use std::{
    collections::HashMap,
    convert::Infallible,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost::Message;
use tokio::{net::UnixListener, task::JoinHandle};

/// A plugin that runs until it is dropped.
pub(crate) struct Plugin {
    pub(crate) socket: PathBuf,
    pub(crate) state: Arc<Mutex<PluginState>>,
    task: JoinHandle<()>,
}

/// What a plugin knows.
#[derive(Default)]
pub(crate) struct PluginState {
    pub(crate) key_id: String,
    /// Plaintexts by ciphertext.
    known: HashMap<Vec<u8>, Vec<u8>>,
    pub(crate) encryptions: usize,
    pub(crate) decryptions: usize,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct PlainMessage {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: std::collections::BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: std::collections::BTreeMap<String, Vec<u8>>,
}

// --- Plugin ---

impl Plugin {
    /// Starts one with what another knew, or with nothing.
    pub(crate) fn start(directory: &Path, state: Arc<Mutex<PluginState>>) -> Self {
        let socket = directory.join("kms.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = Arc::clone(&state);
        #[expect(clippy::disallowed_methods, reason = "the handle is kept, and ends the task")]
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(request, Arc::clone(&state)));
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { socket, state, task }
    }

    pub(crate) fn configuration(&self) -> String {
        format!(
            "{{kms: {{apiVersion: v2, name: plugin, endpoint: 'unix://{}', timeout: 2s}}}}",
            self.socket.display()
        )
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A plugin's state that encrypts with a key of this name.
pub(crate) fn state(key_id: &str) -> Arc<Mutex<PluginState>> {
    Arc::new(Mutex::new(PluginState {
        key_id: key_id.to_owned(),
        ..PluginState::default()
    }))
}

type PluginResponse = Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<PluginState>>,
) -> Result<PluginResponse, Infallible> {
    let method = request
        .uri()
        .path()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message = body.slice(5.min(body.len())..);
    let answer = state.lock().answer(&method, message);
    let mut trailers = HeaderMap::new();
    let mut frame = BytesMut::new();
    match answer {
        Some(answer) => {
            trailers.insert("grpc-status", "0".parse().unwrap());
            frame.put_u8(0);
            frame.put_u32(u32::try_from(answer.len()).unwrap());
            frame.put_slice(&answer);
        }
        None => {
            // FAILED_PRECONDITION
            trailers.insert("grpc-status", "9".parse().unwrap());
        }
    }
    let body = Full::new(frame.freeze()).with_trailers(async { Some(Ok(trailers)) });
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body.boxed()).unwrap())
}

// --- PluginState ---

impl PluginState {
    fn answer(&mut self, method: &str, message: Bytes) -> Option<Vec<u8>> {
        let annotations = || [("example.com/a".to_owned(), b"b".to_vec())].into();
        Some(match method {
            "Status" => Status {
                version: "v2".to_owned(),
                healthz: "ok".to_owned(),
                key_id: self.key_id.clone(),
            }
            .encode_to_vec(),
            "Encrypt" => {
                self.encryptions += 1;
                let ciphertext = format!("{}-{}", self.key_id, self.known.len()).into_bytes();
                let request = PlainMessage::decode(message).unwrap();
                self.known.insert(ciphertext.clone(), request.plaintext);
                EncryptResponse {
                    ciphertext,
                    key_id: self.key_id.clone(),
                    annotations: annotations(),
                }
                .encode_to_vec()
            }
            "Decrypt" => {
                self.decryptions += 1;
                let request = DecryptRequest::decode(message).unwrap();
                assert_eq!(request.annotations, annotations());
                assert!(!request.key_id.is_empty());
                let plaintext = self.known.get(&request.ciphertext)?.clone();
                PlainMessage { plaintext }.encode_to_vec()
            }
            other => panic!("there is no method {other}"),
        })
    }
}
