//! Metrics and access log.

use crate::raw_connection::{Requester, TestCluster};

#[test]
fn serves_metrics_under_upstream_names() {
    let cluster = TestCluster::start(&[]);
    assert_eq!(cluster.get("/api/v1/namespaces/default/pods/none").code, 404);
    assert_eq!(
        cluster
            .request(
                "POST",
                "/api/v1/namespaces/default/configmaps",
                br#"{"metadata":{"name":"a"}}"#
            )
            .code,
        201
    );
    assert_eq!(
        cluster
            .get("/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion=0")
            .code,
        200
    );
    assert_eq!(
        cluster
            .connect(Requester::Anonymous, "http/1.1")
            .request("GET", "/api/v1/pods", "Authorization: Bearer wrong\r\n", b"")
            .code,
        401
    );
    let text = cluster.get("/metrics").text();
    let common =
        r#"group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver""#;
    for line in [
        format!(r#"apiserver_request_total{{verb="GET",dry_run="",{common},code="404"}} 1"#),
        format!(r#"apiserver_request_duration_seconds_count{{verb="GET",dry_run="",{common}}} 1"#),
        r#"apiserver_watch_events_total{group="",version="v1",resource="configmaps"} "#.to_owned(),
        r#"apiserver_resource_objects{group="",resource="namespaces"} 4"#.to_owned(),
        r#"apiserver_storage_objects{resource="namespaces"} 4"#.to_owned(),
        r#"authentication_attempts{result="failure"} 1"#.to_owned(),
        r#"authorization_attempts_total{result="allowed"} "#.to_owned(),
        r#"etcd_request_duration_seconds_count{operation="create",group="",resource="configmaps"} "#
            .to_owned(),
        "apiserver_audit_event_total 0".to_owned(),
        "process_resident_memory_bytes ".to_owned(),
        "kubernetes_build_info{".to_owned(),
    ] {
        assert!(
            text.lines().any(|found| found.starts_with(&line)),
            "{line} in {text}"
        );
    }
    // Each metric is reported once and has a help text.
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(cluster.get("/livez").code, 200);
    let slis = cluster.get("/metrics/slis").text();
    assert!(
        slis.contains(r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#),
        "{slis}"
    );
}

#[test]
fn responses_have_audit_ids_and_the_access_log_has_no_secrets() {
    let cluster = TestCluster::start(&["--log-level=debug"]);
    let headers = "Audit-ID: request-1\r\nAuthorization: Bearer hidden-token\r\n";
    let mut connection = cluster.connect(Requester::Anonymous, "http/1.1");
    let response = connection.request("GET", "/api/v1/secrets?token=hidden-query", headers, b"");
    assert_eq!(response.code, 401);
    assert!(response.head.contains("audit-id: request-1"), "{}", response.head);
    let other = cluster.get("/version").head;
    let id = other
        .lines()
        .find_map(|line| line.strip_prefix("audit-id: "))
        .unwrap();
    assert_eq!(id.len(), 36);
    let log = cluster.data.log();
    let line = log.lines().find(|line| line.contains("request-1")).unwrap();
    assert!(
        line.contains("/api/v1/secrets") && line.contains("401") && line.contains("LIST"),
        "{line}"
    );
    assert!(
        log.lines()
            .any(|line| line.contains(id) && line.contains("/version")),
        "{log}"
    );
    assert!(!log.contains("hidden"), "{log}");
}
