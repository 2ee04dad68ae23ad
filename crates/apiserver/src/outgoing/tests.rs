//! Calls to a server in this process.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use k3_storage::memory::MemoryStore;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    Destination, WebhookClientManager,
    testing::{FakeResponse, FakeWebhookServer},
};
use crate::{
    cache::{StoreReflector, WatchCaches},
    registry,
};

struct TestClient {
    outgoing: WebhookClientManager,
    _feed: StoreReflector,
}

impl TestClient {
    async fn new() -> Self {
        let store = MemoryStore::new();
        let (caches, feed) = WatchCaches::fill(store, registry::selectable).await.unwrap();
        TestClient {
            outgoing: WebhookClientManager::new(Arc::clone(&caches), Arc::default()),
            _feed: feed,
        }
    }

    async fn post(&self, client: &Value, timeout: Duration) -> Result<Value, String> {
        let to = Destination::read(client).unwrap();
        let body = Bytes::from_static(b"{\"a\":1}");
        match self.outgoing.post(&to, body, Some(timeout)).await {
            Ok(answer) => Ok(serde_json::from_slice(&answer).unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }
}

const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn reuses_connection() {
    let callee =
        FakeWebhookServer::new(|path, body| FakeResponse::Json(json!({"path": path, "body": body}))).await;
    let caller = TestClient::new().await;
    for _ in 0..3 {
        let answer = caller.post(&callee.client("/hook"), LONG).await.unwrap();
        assert_eq!(answer, json!({"path": "/hook?timeout=30s", "body": {"a": 1}}));
    }
    assert_eq!(callee.connections(), 1);
}

#[tokio::test]
async fn call_times_out() {
    let callee = FakeWebhookServer::new(|_, _| FakeResponse::Never).await;
    let caller = TestClient::new().await;
    let error = caller
        .post(&callee.client("/"), Duration::from_millis(300))
        .await
        .unwrap_err();
    assert_eq!(
        error,
        format!(
            "Post \"https://{}/?timeout=1s\": context deadline exceeded",
            callee.address
        )
    );
}

#[tokio::test]
async fn rejects_unreachable_or_untrusted_server() {
    let caller = TestClient::new().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let client = json!({"url": format!("https://{address}/x")});
    assert_eq!(
        caller.post(&client, LONG).await.unwrap_err(),
        format!("Post \"https://{address}/x?timeout=30s\": dial tcp {address}: connect: connection refused")
    );
    let one = FakeWebhookServer::new(|_, _| FakeResponse::Never).await;
    let other = FakeWebhookServer::new(|_, _| FakeResponse::Never).await;
    let mut client = one.client("/");
    client["caBundle"] = other.bundle().into();
    let error = caller.post(&client, LONG).await.unwrap_err();
    assert!(
        error.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{error}"
    );
    assert_eq!(one.calls().len(), 0);
}

#[tokio::test]
async fn verifies_host_name() {
    let callee = FakeWebhookServer::new(|_, _| FakeResponse::Never).await;
    let caller = TestClient::new().await;
    let mut client = callee.client("/");
    client["url"] = format!("https://127.0.0.2:{}/", callee.address.port()).into();
    let error = caller.post(&client, LONG).await.unwrap_err();
    // Linux answers on all of 127.0.0.0/8, but this address has no listener.
    assert!(error.contains("127.0.0.2"), "{error}");
}

#[tokio::test]
async fn error_status_is_an_error() {
    let callee = FakeWebhookServer::new(|path, _| match path {
        "/none?timeout=30s" => FakeResponse::Text(200, ""),
        _ => FakeResponse::Text(500, "out of order"),
    })
    .await;
    let caller = TestClient::new().await;
    assert_eq!(
        caller.post(&callee.client("/x"), LONG).await.unwrap_err(),
        r#"an error on the server ("out of order") has prevented the request from succeeding"#
    );
    assert_eq!(
        caller.post(&callee.client("/none"), LONG).await.unwrap_err(),
        "0-length response with status code: 200 and content type: text/plain"
    );
}

#[tokio::test]
async fn missing_service_is_not_found() {
    let caller = TestClient::new().await;
    let client = json!({"service": {"namespace": "tests", "name": "hook"}});
    assert_eq!(
        caller.post(&client, LONG).await.unwrap_err(),
        r#"Post "https://hook.tests.svc:443/?timeout=30s": service "hook" not found"#
    );
}
