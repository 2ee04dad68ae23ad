//! A server that is called, for tests.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use k3_api::base64;
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Barrier, task::JoinSet};
use tokio_rustls::TlsAcceptor;

/// The scripted response.
#[derive(Clone, Debug)]
pub(crate) enum FakeResponse {
    /// This JSON.
    Json(Value),
    /// This code, and this text.
    Text(u16, &'static str),
    /// This JSON, when as many as the barrier wants are being answered.
    Together(Arc<Barrier>, Value),
    /// Nothing, for as long as anybody waits.
    Never,
}

type RespondFn = Arc<dyn Fn(&str, &Value) -> FakeResponse + Send + Sync>;

/// A server with a certificate of its own that answers by a script. It ends with this handle.
pub(crate) struct FakeWebhookServer {
    pub address: SocketAddr,
    pem: String,
    calls: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

// --- FakeWebhookServer ---

impl FakeWebhookServer {
    /// A server that responds according to a script.
    pub(crate) async fn new(script: impl Fn(&str, &Value) -> FakeResponse + Send + Sync + 'static) -> Self {
        let key = KeyPair::generate().unwrap();
        let names = ["127.0.0.1", "localhost", "hook.tests.svc"].map(str::to_owned);
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::default();
        let connections = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            Arc::new(script),
            Arc::clone(&calls),
            Arc::clone(&connections),
        ));
        FakeWebhookServer {
            address,
            pem: certificate.pem(),
            calls,
            connections,
            _tasks: tasks,
        }
    }

    /// The `clientConfig` that calls it.
    pub(crate) fn client(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.bundle()})
    }

    /// Its certificate, as configurations have it.
    pub(crate) fn bundle(&self) -> String {
        base64::encode(self.pem.as_bytes())
    }

    /// The bodies it was called with, in order.
    pub(crate) fn calls(&self) -> Vec<Value> {
        self.calls.lock().clone()
    }

    /// How many connections were made to it.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    script: RespondFn,
    calls: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
) {
    let mut tasks = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        let script = Arc::clone(&script);
        let calls = Arc::clone(&calls);
        connections.fetch_add(1, Ordering::Relaxed);
        tasks.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request| reply(request, Arc::clone(&script), Arc::clone(&calls)));
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn reply(
    request: Request<Incoming>,
    script: RespondFn,
    calls: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().to_string();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    calls.lock().push(body.clone());
    let (code, media, text) = match script(&path, &body) {
        FakeResponse::Json(value) => (200, "application/json", value.to_string()),
        FakeResponse::Text(code, text) => (code, "text/plain", text.to_owned()),
        FakeResponse::Together(barrier, value) => {
            barrier.wait().await;
            (200, "application/json", value.to_string())
        }
        FakeResponse::Never => {
            tokio::time::sleep(Duration::from_hours(1)).await;
            (200, "text/plain", String::new())
        }
    };
    let answer = Response::builder()
        .status(code)
        .header("content-type", media)
        .body(Full::new(Bytes::from(text)))
        .unwrap();
    Ok(answer)
}
