//! A server without connections, and requests to it.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use bytes::BytesMut;
use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Full};
use k3_apiserver::{
    Authentication, Config, EndpointReconcilerType, InProcessBody, InProcessTransport, Limits, PodAccounts,
    Server, User, service_range,
};
use k3_storage::Store;
use serde_json::Value;
use tokio::time::{sleep, timeout};

/// How long to wait for a condition.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and its administrator.
pub(crate) struct Client {
    server: Arc<Server>,
    transport: InProcessTransport,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

/// A running watch.
pub(crate) struct Watch {
    body: InProcessBody,
    text: BytesMut,
}

// --- Client ---

impl Client {
    /// Starts a server, for a user who may do everything.
    pub(crate) async fn start(store: Arc<dyn Store>) -> Self {
        let signing = ring::signature::EcdsaKeyPair::generate_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            &ring::rand::SystemRandom::new(),
        )
        .unwrap();
        let config = Config {
            authentication: Authentication::default(),
            service_range: service_range("10.0.0.0/24").unwrap(),
            issuer: "https://issuer".to_owned(),
            signing_key: signing.as_ref().to_vec(),
            unrestricted_update: false,
            advertise: (Ipv4Addr::new(192, 0, 2, 1).into(), 6443),
            endpoint_reconciler: EndpointReconcilerType::Hidden,
            guard_owners: false,
            pod_accounts: PodAccounts::Free,
            limits: Limits::default(),
            audit: None,
            nodes: None,
            usage: false,
        };
        let server = Arc::new(Server::start(config, store).await.unwrap());
        let transport = server.in_process(user("admin", "system:masters"));
        Client { server, transport }
    }

    /// The same server, for another user.
    pub(crate) fn with_user(&self, name: &str, group: &str) -> Self {
        Client {
            server: Arc::clone(&self.server),
            transport: self.server.in_process(user(name, group)),
        }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> TestResponse {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send_as(method, path, "application/json", body).await
    }

    /// Sends a body of another media type.
    pub(crate) async fn send_as(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: String,
    ) -> TestResponse {
        let answer = self.transport.ask(request_as(method, path, media, body)).await;
        let (head, body) = answer.into_parts();
        let bytes = timeout(PATIENCE, body.collect())
            .await
            .unwrap()
            .unwrap()
            .to_bytes();
        TestResponse {
            code: head.status.as_u16(),
            headers: head.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Sends a request, again while the server is not ready for it, as clients do.
    pub(crate) async fn retry(&self, method: Method, path: &str, body: Option<&Value>) -> TestResponse {
        let answered = timeout(PATIENCE, async {
            loop {
                let reply = self.send(method.clone(), path, body).await;
                if !matches!(reply.code, 503 | 504) {
                    return reply;
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        answered.await.unwrap_or_else(|_| panic!("{path} is not served"))
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.retry(Method::GET, path, None).await
    }

    /// Creates an object, which must succeed.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        let reply = self.retry(Method::POST, path, Some(object)).await;
        assert_eq!(reply.code, 201, "{path}: {}", reply.text);
        reply.body
    }

    /// Deletes an object, which must succeed.
    pub(crate) async fn delete(&self, path: &str) {
        let path = format!("{path}?gracePeriodSeconds=0");
        let reply = self.retry(Method::DELETE, &path, None).await;
        assert!(reply.code < 300, "{path}: {}", reply.text);
    }

    /// Gets a path until the answer is as it should be.
    pub(crate) async fn get_until(&self, path: &str, is_so: impl Fn(&TestResponse) -> bool) -> TestResponse {
        let found = timeout(PATIENCE, async {
            loop {
                let reply = self.send(Method::GET, path, None).await;
                if is_so(&reply) {
                    return reply;
                }
                sleep(Duration::from_millis(20)).await;
            }
        });
        found
            .await
            .unwrap_or_else(|_| panic!("{path} does not become so"))
    }

    /// Begins a watch, which must succeed.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        let begun = timeout(PATIENCE, async {
            loop {
                let answer = self.transport.ask(request(Method::GET, path, None)).await;
                let (head, body) = answer.into_parts();
                if head.status == 200 {
                    return body;
                }
                let bytes = body.collect().await.unwrap().to_bytes();
                let text = String::from_utf8_lossy(&bytes);
                assert!(matches!(head.status.as_u16(), 503 | 504), "{path}: {text}");
                sleep(Duration::from_millis(50)).await;
            }
        });
        Watch {
            body: begun.await.unwrap_or_else(|_| panic!("{path} is not served")),
            text: BytesMut::new(),
        }
    }
}

fn user(name: &str, group: &str) -> User {
    User {
        name: name.to_owned(),
        groups: vec![group.to_owned(), "system:authenticated".to_owned()],
        ..User::default()
    }
}

fn request(method: Method, path: &str, body: Option<&Value>) -> Request<Full<bytes::Bytes>> {
    let body = body.map(Value::to_string).unwrap_or_default();
    request_as(method, path, "application/json", body)
}

fn request_as(method: Method, path: &str, media: &str, body: String) -> Request<Full<bytes::Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, media)
        .body(Full::from(body))
        .unwrap()
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
