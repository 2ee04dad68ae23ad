//! Operation of an operator: health, metrics and a graceful stop.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use dummy::{Dummy, DummySpec};
use k3_test_services::free_port;
use kube::api::PostParams;
use kubecontroller::testing::eventually;
use rustix::process::Signal;

use crate::TestCluster;

/// The response to a GET; `None` without a response.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[tokio::test]
async fn serves_health_and_metrics_and_stops_on_a_signal() {
    let cluster = TestCluster::start().await;
    let health = free_port().unwrap();
    let metrics = free_port().unwrap();
    let flags = [
        format!("--health-probe-bind-address=127.0.0.1:{health}"),
        format!("--metrics-bind-address=127.0.0.1:{metrics}"),
        "--enabled=dummies".to_owned(),
    ];
    let mut operator = cluster.operator(&flags.each_ref().map(String::as_str));
    let is_ok = |answer: &String| answer.starts_with("HTTP/1.1 200");
    eventually(|| async { get(health, "/readyz").filter(is_ok) }).await;
    assert!(get(health, "/healthz").is_some_and(|answer| is_ok(&answer)));

    let dummies = cluster.api::<Dummy>();
    let spec = DummySpec {
        transition_defer: 0,
        data: "hello".to_owned(),
    };
    dummies
        .create(&PostParams::default(), &Dummy::new("d", spec))
        .await
        .unwrap();
    let copied = |dummy: &Dummy| dummy.status.as_ref().is_some_and(|status| status.data == "hello");
    eventually(|| async { dummies.get("d").await.ok().filter(copied) }).await;
    let counted = |metrics: &String| {
        let line = "controller_runtime_reconcile_total{";
        metrics
            .lines()
            .any(|found| found.starts_with(line) && found.contains("\"dummy\"") && !found.ends_with(" 0"))
    };
    eventually(|| async { get(metrics, "/metrics").filter(counted) }).await;

    assert_eq!(operator.end_by(Signal::TERM).code(), Some(0));
}
