//! What probes and scrapers are told.

use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use super::{HealthChecks, ManagerError, Pages, Server};
use crate::{
    manager::{App, Config, ManagerContext, Stop, task},
    testing::{FakeApi, eventually},
};

/// An address that is free.
async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The status and the body of an answer.
async fn ask(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    timeout(Duration::from_mins(1), stream.read_to_string(&mut answer))
        .await
        .ok()?
        .ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    ask(address, "GET", path, "").await
}

/// Waits for an answer.
async fn answers(address: &str, path: &str, status: u16, body: &str) {
    eventually(|| async { get(address, path).await == Some((status, body.to_owned())) }).await;
}

#[tokio::test]
async fn a_program_is_alive_then_ready_then_stopping() {
    let api = FakeApi::new();
    api.faults().fail_next(1_000_000, 503);
    let (health, metrics) = (free_address().await, free_address().await);
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
        manager.health().add_readyz_check("moon", || Ok(()));
        let moons = Gauge::<i64>::default();
        moons.set(1);
        manager.registry().register("moons", "How many there are", moons);
        Ok(())
    });
    let mut running = JoinSet::new();
    running.spawn(app.run(config, api.client(), stop.clone()));
    answers(&health, "/healthz", 200, "ok").await;
    answers(&health, "/readyz", 503, "not synced").await;
    let verbose = "[+]running ok\n[-]informers failed: not synced\n[+]moon ok\nreadyz check failed\n";
    answers(&health, "/readyz?verbose", 503, verbose).await;
    api.faults().clear();
    answers(&health, "/readyz", 200, "ok").await;
    let (status, figures) = get(&metrics, "/metrics").await.unwrap();
    assert_eq!(status, 200);
    assert!(
        figures.contains("# TYPE workqueue_depth gauge") || figures.contains("# TYPE"),
        "{figures}"
    );
    // Each page has its place.
    assert_eq!(get(&metrics, "/healthz").await.unwrap().0, 404);
    assert_eq!(get(&health, "/metrics").await.unwrap().0, 404);
    assert_eq!(get(&health, "/debug/pprof/profile").await.unwrap().0, 404);
    assert_eq!(ask(&health, "POST", "/healthz", "").await.unwrap().0, 405);
    stop.stop(Duration::from_secs(3));
    answers(&health, "/healthz", 503, "stopping").await;
    answers(&health, "/readyz", 503, "stopping").await;
    running.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(get(&health, "/healthz").await, None);
}

#[tokio::test]
async fn one_address_can_serve_everything() {
    let address = free_address().await;
    let config = Config {
        health_address: Some(address.clone()),
        metrics_address: Some(address.clone()),
        ..Config::default()
    };
    let stop = Stop::new();
    let mut running = JoinSet::new();
    running.spawn(App::new("test").run(config, FakeApi::new().client(), stop.clone()));
    answers(&address, "/readyz", 200, "ok").await;
    assert_eq!(get(&address, "/metrics").await.unwrap().0, 200);
    stop.stop(Duration::from_secs(3));
    running.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_start() {
    let held = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = Config {
        health_address: Some(held.local_addr().unwrap().to_string()),
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
async fn checks_of_ones_own_are_asked() {
    let health = HealthChecks::default();
    assert_eq!((health.healthz(), health.readyz()), (Ok(()), Ok(())));
    health.add_healthz_check("disk", || Err("full".to_owned()));
    assert_eq!(
        (health.healthz(), health.readyz()),
        (Err("full".to_owned()), Ok(()))
    );
    health.add_readyz_check("cache", || Err("cold".to_owned()));
    assert_eq!(health.readyz(), Err("cold".to_owned()));
}

#[tokio::test]
async fn debugging_is_for_callers_on_this_machine() {
    let context = ManagerContext::new(Config::default(), FakeApi::new().client());
    let pages = Pages {
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
        let forbidden = Pages::is_forbidden("/debug/log-level", from.parse().unwrap());
        assert_eq!(forbidden, !is_local, "{from}");
    }
    assert!(!Pages::is_forbidden("/healthz", "10.0.0.1:1".parse().unwrap()));
    // Nobody's log is ours to change unless we made it.
    let server = Server::listen("127.0.0.1:0", pages).await.unwrap();
    let address = server.address().to_string();
    let mut running = JoinSet::new();
    let stop = Stop::new();
    running.spawn(server.run(stop.clone()));
    let (status, body) = ask(&address, "PUT", "/debug/log-level", "loud").await.unwrap();
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains("is not a level"), "{body}");
    stop.stop(Duration::from_secs(3));
    running.join_next().await.unwrap().unwrap();
}
