//! Connections that take too much, or give too little.

use std::{
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, prlimit};

use crate::raw_connection::{Requester, TestCluster};

#[test]
fn headers_above_a_mebibyte_get_431() {
    let cluster = TestCluster::start(&[]);
    let padding = |length: usize| format!("X-Padding: {}\r\n", "x".repeat(length));
    assert_eq!(
        cluster
            .admin()
            .request("GET", "/version", &padding(100_000), b"")
            .code,
        200
    );
    let mut connection = cluster.admin();
    connection.try_send(
        format!(
            "GET /version HTTP/1.1\r\nHost: k3\r\n{}\r\n",
            padding(1024 * 1024)
        )
        .as_bytes(),
    );
    assert_eq!(connection.response().code, 431);
    cluster.assert_healthy();
}

#[test]
fn a_body_that_times_out_gets_504() {
    let cluster = TestCluster::start(&["--request-timeout=1s"]);
    for query in ["", "?timeout=100ms"] {
        let mut connection = cluster.admin();
        let path = format!("/api/v1/namespaces/default/configmaps{query}");
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: k3\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n\r\n{{"
        );
        connection.send(head.as_bytes());
        let response = connection.response();
        assert_eq!(response.code, 504, "{}", response.text());
        let status = response.tree();
        assert_eq!(
            status["message"],
            "Timeout: request did not complete within the allotted timeout"
        );
        assert_eq!(
            (&status["reason"], &status["code"]),
            (&"Timeout".into(), &504.into())
        );
        // What is left of the body must not be taken for a request.
        assert_eq!(connection.rest(), b"");
    }
    let refused = cluster.get("/api/v1/pods?timeout=soon");
    assert_eq!(refused.code, 400);
    assert!(
        refused
            .text()
            .contains("invalid timeout specified in the request URL - time: invalid duration")
    );
    cluster.assert_healthy();
}

#[test]
fn watches_outlive_the_request_timeout() {
    let cluster = TestCluster::start(&["--request-timeout=100ms"]);
    let mut connection = cluster.admin();
    connection.send(
        b"GET /api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=2 HTTP/1.1\r\nHost: k3\r\n\r\n",
    );
    let response = connection.response();
    // It ended as it was asked to: with the last piece of its body.
    assert_eq!(response.code, 200);
}

#[test]
fn ignores_unsupported_protocol_upgrades() {
    let cluster = TestCluster::start(&[]);
    for path in [
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/pods/none/exec?command=sh",
        "/version",
    ] {
        let mut connection = cluster.connect(Requester::Admin, "http/1.1");
        let smuggled =
            "GET /api/v1/namespaces/kube-system/secrets HTTP/1.1\r\nHost: k3\r\nConnection: close\r\n\r\n";
        connection.send(
            format!(
                "GET {path} HTTP/1.1\r\nHost: k3\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n{smuggled}"
            )
            .as_bytes(),
        );
        let response = connection.response();
        assert_ne!(response.code, 101, "{path}");
        // What follows is a request like any other, with its own answer; or the connection is over.
        let rest = String::from_utf8_lossy(&connection.rest()).into_owned();
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 200"),
            "{path}: {rest}"
        );
    }
    cluster.assert_healthy();
}

#[test]
fn survives_exhausted_file_descriptors() {
    let cluster = TestCluster::start(&[]);
    let limit = Rlimit {
        current: Some(48),
        maximum: Some(48),
    };
    prlimit(Some(cluster.server.id()), Resource::Nofile, limit).unwrap();
    let crowd: Vec<_> = (0..200)
        .map(|_| {
            TcpStream::connect_timeout(
                &(Ipv4Addr::LOCALHOST, cluster.server.port()).into(),
                Duration::from_secs(10),
            )
        })
        .filter_map(Result::ok)
        .collect();
    while !cluster.data.log().contains("a connection could not be taken") {
        std::thread::yield_now();
    }
    drop(crowd);
    cluster.assert_healthy();
}

#[test]
fn idle_watches_do_not_block_requests() {
    let cluster = TestCluster::start(&[]);
    let watches: Vec<_> = (0..300)
        .map(|_| {
            let mut connection = cluster.admin();
            connection
                .send(b"GET /api/v1/namespaces/default/configmaps?watch=true HTTP/1.1\r\nHost: k3\r\n\r\n");
            assert!(connection.head().starts_with("http/1.1 200"));
            connection
        })
        .collect();
    cluster.assert_healthy();
    let metrics = cluster.get("/metrics").text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("apiserver_longrunning_requests{") && line.contains("configmaps"));
    assert!(line.unwrap().ends_with(" 300"), "{line:?}");
    drop(watches);
}
