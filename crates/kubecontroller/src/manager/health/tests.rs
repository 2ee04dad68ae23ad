//! Tests of the endpoints.

use std::time::Duration;

use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use super::{Endpoints, HealthCheckError, HealthChecks, HealthServer, ManagerError};
use crate::{
    manager::{App, Config, ManagerContext, Stop, task},
    metrics::MetricDesc,
    testing::{FakeApi, eventually},
};

const CACHES: MetricDesc = MetricDesc::gauge("caches", "Number of caches", &[]);

/// A free local address.
async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// Sends a request and returns status and body of the response.
async fn request(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    timeout(Duration::from_mins(1), stream.read_to_string(&mut response))
        .await
        .ok()?
        .ok()?;
    let status = response.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = response.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    request(address, "GET", path, "").await
}

/// Waits for a response.
async fn eventually_responds(address: &str, path: &str, status: u16, body: &str) {
    eventually(|| async { get(address, path).await == Some((status, body.to_owned())) }).await;
}

#[tokio::test]
async fn program_becomes_healthy_then_ready_then_stopping() {
    let api = FakeApi::new();
    api.faults().fail_next(1_000_000, 503);
    let health = free_address().await;
    let metrics = free_address().await;
    let config = Config {
        health_address: Some(health.clone()),
        metrics_address: Some(metrics.clone()),
        ..Config::default()
    };
    let stop = Stop::new();
    let app = App::new("test").register(|manager| {
        let maps = manager
            .informers()
            .typed::<k8s_openapi::api::core::v1::ConfigMap>(crate::informer::InformerScope::default());
        manager.add(task("slow-to-stop", move |stop: Stop| {
            let maps = maps.clone();
            async move {
                stop.stopped().await;
                drop(maps);
                stop.expired().await;
                Ok(())
            }
        }));
        manager.health().add_readyz_check("cache", || Ok(()));
        manager.metrics().set_gauge(&CACHES, &[], 1.0);
        Ok(())
    });
    let mut running = JoinSet::new();
    running.spawn(app.run(config, api.client(), stop.clone()));
    eventually_responds(&health, "/healthz", 200, "ok").await;
    eventually_responds(&health, "/readyz", 503, "not synced").await;
    let verbose = "[+]running ok\n[-]informers failed: not synced\n[+]cache ok\nreadyz check failed\n";
    eventually_responds(&health, "/readyz?verbose", 503, verbose).await;
    api.faults().clear();
    eventually_responds(&health, "/readyz", 200, "ok").await;
    let (status, text) = get(&metrics, "/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(
        text.contains("# TYPE workqueue_depth gauge") || text.contains("# TYPE"),
        "{text}"
    );
    // Each address serves only its own endpoints.
    assert_eq!(get(&metrics, "/healthz").await.unwrap().0, 404);
    assert_eq!(get(&health, "/metrics").await.unwrap().0, 404);
    assert_eq!(get(&health, "/debug/pprof/profile").await.unwrap().0, 404);
    assert_eq!(request(&health, "POST", "/healthz", "").await.unwrap().0, 405);
    stop.stop(Duration::from_secs(3));
    eventually_responds(&health, "/healthz", 503, "stopping").await;
    eventually_responds(&health, "/readyz", 503, "stopping").await;
    running.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(get(&health, "/healthz").await, None);
}

#[tokio::test]
async fn health_and_metrics_can_share_an_address() {
    let address = free_address().await;
    let config = Config {
        health_address: Some(address.clone()),
        metrics_address: Some(address.clone()),
        ..Config::default()
    };
    let stop = Stop::new();
    let mut running = JoinSet::new();
    running.spawn(App::new("test").run(config, FakeApi::new().client(), stop.clone()));
    eventually_responds(&address, "/readyz", 200, "ok").await;
    assert_eq!(get(&address, "/metrics").await.unwrap().0, 200);
    stop.stop(Duration::from_secs(3));
    running.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn address_in_use_ends_the_start() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        health_address: Some(listener.local_addr().unwrap().to_string()),
        ..Config::default()
    };
    let error = App::new("test")
        .run(config, FakeApi::new().client(), Stop::new())
        .await
        .unwrap_err();
    assert!(
        matches!(error, ManagerError::Listen { .. }) && error.exit_code() == 1,
        "{error}"
    );
}

#[tokio::test]
async fn custom_checks_are_evaluated() {
    let health = HealthChecks::default();
    assert_eq!((health.healthz(), health.readyz()), (Ok(()), Ok(())));
    health.add_healthz_check("disk", || Err(HealthCheckError::Failed("full".to_owned())));
    assert_eq!(
        (health.healthz(), health.readyz()),
        (Err(HealthCheckError::Failed("full".to_owned())), Ok(()))
    );
    health.add_readyz_check("cache", || Err(HealthCheckError::Failed("cold".to_owned())));
    assert_eq!(health.readyz(), Err(HealthCheckError::Failed("cold".to_owned())));
}

#[tokio::test]
async fn debug_endpoints_are_for_local_callers() {
    let context = ManagerContext::new(Config::default(), FakeApi::new().client());
    let endpoints = Endpoints {
        context,
        health: true,
        metrics: false,
        profiling: true,
    };
    for (from, is_local) in [
        ("127.0.0.1:1", true),
        ("[::1]:1", true),
        ("[::ffff:127.0.0.1]:1", true),
        ("10.0.0.1:1", false),
    ] {
        let forbidden = Endpoints::is_forbidden("/debug/log-level", from.parse().unwrap());
        assert_eq!(forbidden, !is_local, "{from}");
    }
    assert!(!Endpoints::is_forbidden(
        "/healthz",
        "10.0.0.1:1".parse().unwrap()
    ));
    // The log of the test process was not installed by `App`, but an invalid level is rejected first.
    let server = HealthServer::listen("127.0.0.1:0", endpoints).await.unwrap();
    let address = server.address().to_string();
    let mut running = JoinSet::new();
    let stop = Stop::new();
    running.spawn(server.run(stop.clone()));
    let (status, body) = request(&address, "PUT", "/debug/log-level", "loud")
        .await
        .unwrap();
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains("is not a log level"), "{body}");
    stop.stop(Duration::from_secs(3));
    running.join_next().await.unwrap().unwrap();
}
