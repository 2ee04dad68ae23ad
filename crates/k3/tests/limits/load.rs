//! More concurrent requests than the limits allow.

use std::fs;

use crate::{
    program::TestDataDir,
    raw_connection::{RawConnection, Requester, TestCluster},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts a write without sending its body.
fn begin_write(cluster: &TestCluster) -> RawConnection {
    let mut connection = cluster.admin();
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: k3\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n\r\n{{"
    );
    connection.send(head.as_bytes());
    connection
}

#[test]
fn excess_writes_get_429_while_reads_and_administrators_are_served() {
    let tokens = TestDataDir::new();
    let file = tokens.path().join("tokens.csv");
    fs::write(&file, "alice-token,alice,1,\"devs\"\n").unwrap();
    let file = format!("--token-auth-file={}", file.display());
    let cluster = TestCluster::start(&["--max-mutating-requests-inflight=1", &file]);
    let _first = begin_write(&cluster);
    let figure = r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#;
    while !cluster.get("/metrics").text().contains(figure) {}
    let alice = "Authorization: Bearer alice-token\r\nContent-Type: application/json\r\n";
    let mut connection = cluster.connect(Requester::Anonymous, "http/1.1");
    let refused = connection.request("POST", CONFIG_MAPS, alice, b"{}");
    assert_eq!(
        (refused.code, refused.text().as_str()),
        (429, "Too many requests, please try again later.\n")
    );
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    // A read has a pool of its own, and the administrator is never kept out.
    let mut connection = cluster.connect(Requester::Anonymous, "http/1.1");
    assert_eq!(connection.request("GET", "/version", alice, b"").code, 200);
    assert_eq!(
        cluster
            .request("POST", CONFIG_MAPS, br#"{"metadata":{"name":"a"}}"#)
            .code,
        201
    );
    let metrics = cluster.get("/metrics").text();
    assert!(
        metrics.contains(r#"apiserver_dropped_requests_total{request_kind="mutating"} 1"#),
        "{metrics}"
    );
    assert!(
        metrics.contains("apiserver_request_terminations_total{verb=\"POST\""),
        "{metrics}"
    );
}

#[test]
fn limits_the_watches_of_a_user() {
    let tokens = TestDataDir::new();
    let file = tokens.path().join("tokens.csv");
    fs::write(&file, "alice-token,alice,1\n").unwrap();
    let file = format!("--token-auth-file={}", file.display());
    let cluster = TestCluster::start(&["--max-watches-per-user=2", &file]);
    let binding = br#"{"metadata":{"name":"alice"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"alice"}]}"#;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(cluster.request("POST", bindings, binding).code, 201);
    let watch = |headers: &str, requester: Requester| {
        let mut connection = cluster.connect(requester, "http/1.1");
        connection
            .send(format!("GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: k3\r\n{headers}\r\n").as_bytes());
        let head = connection.head();
        (head, connection)
    };
    let alice = "Authorization: Bearer alice-token\r\n";
    let watches = [
        watch(alice, Requester::Anonymous),
        watch(alice, Requester::Anonymous),
    ];
    assert!(watches.iter().all(|(head, _)| head.starts_with("http/1.1 200")));
    let (refused, _) = watch(alice, Requester::Anonymous);
    assert!(
        refused.starts_with("http/1.1 429") && refused.contains("retry-after: 1"),
        "{refused}"
    );
    for _ in 0..3 {
        assert!(watch("", Requester::Admin).0.starts_with("http/1.1 200"));
    }
    drop(watches);
    // The server may take a moment to see that they are gone.
    while !watch(alice, Requester::Anonymous).0.starts_with("http/1.1 200") {}
}

#[test]
fn writes_are_atomic_when_the_client_disconnects() {
    let cluster = TestCluster::start(&[]);
    for number in 0..50 {
        let mut connection = cluster.admin();
        let body = format!(r#"{{"metadata":{{"name":"left-{number}"}}}}"#);
        let head = format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: k3\r\nContent-Length: {}\r\nContent-Type: application/json\r\n\r\n{body}",
            body.len()
        );
        connection.send(head.as_bytes());
    }
    // Each is there or not, and what is there is whole.
    let listed = cluster.get(CONFIG_MAPS).tree();
    for item in listed["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap();
        assert_eq!(
            cluster
                .request("DELETE", &format!("{CONFIG_MAPS}/{name}"), b"")
                .code,
            200
        );
    }
    cluster.assert_healthy();
}
