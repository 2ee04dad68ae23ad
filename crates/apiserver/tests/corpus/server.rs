//! A server in this process, and requests to it.

use std::{net::Ipv4Addr, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use k3_apiserver::{
    Authentication, Config, EndpointReconcilerType, InProcessBody, Limits, PodAccounts, Server, User,
    service_range,
};
use k3_storage::memory::MemoryStore;
use serde_json::Value;
use tokio::time::timeout;

/// How long to wait for an answer or an event, and for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A control plane without controllers.
pub(crate) struct TestServer(Server);

/// An answer.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// JSON, or else the text.
    pub(crate) body: Value,
}

/// A running watch.
pub(crate) struct Watch {
    body: InProcessBody,
    text: BytesMut,
}

// --- TestServer ---

impl TestServer {
    pub(crate) async fn start() -> Self {
        let signing = ring::signature::EcdsaKeyPair::generate_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            &ring::rand::SystemRandom::new(),
        )
        .unwrap();
        let config = Config {
            authentication: Authentication::default(),
            service_range: service_range("10.96.0.0/16").unwrap(),
            issuer: "https://kubernetes.default.svc".to_owned(),
            signing_key: signing.as_ref().to_vec(),
            unrestricted_update: false,
            advertise: (Ipv4Addr::new(192, 0, 2, 1).into(), 6443),
            endpoint_reconciler: EndpointReconcilerType::Hidden,
            guard_owners: false,
            pod_accounts: PodAccounts::Required,
            limits: Limits::default(),
            audit: None,
            nodes: None,
            usage: false,
        };
        let server = Server::start(config, MemoryStore::new()).await.unwrap();
        TestServer(server)
    }

    pub(crate) async fn send(&self, user: User, request: Request<Full<Bytes>>) -> TestResponse {
        let transport = self.0.in_process(user);
        let (head, body) = transport.ask(request).await.into_parts();
        let body = timeout(PATIENCE, body.collect()).await.expect("no answer");
        let bytes = body.unwrap().to_bytes();
        TestResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: read_body(&bytes),
        }
    }

    /// Opens a watch; without it the answer is what was said instead.
    pub(crate) async fn watch(
        &self,
        user: User,
        request: Request<Full<Bytes>>,
    ) -> Result<Watch, TestResponse> {
        let transport = self.0.in_process(user);
        let (head, body) = transport.ask(request).await.into_parts();
        if head.status == 200 {
            return Ok(Watch {
                body,
                text: BytesMut::new(),
            });
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        Err(TestResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: read_body(&bytes),
        })
    }
}

/// What begins as JSON is JSON, whatever its media type: some paths call it text.
fn read_body(bytes: &[u8]) -> Value {
    let json = bytes.first().filter(|first| matches!(first, b'{' | b'['));
    let json = json.and_then(|_| serde_json::from_slice(bytes).ok());
    json.unwrap_or_else(|| Value::from(String::from_utf8_lossy(bytes).into_owned()))
}

// --- Watch ---

impl Watch {
    /// The next event; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line = self.text.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = timeout(PATIENCE, self.body.frame())
                .await
                .expect("no event arrives")?;
            self.text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }
}
