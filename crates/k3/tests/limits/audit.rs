//! The audit log, as it is found in its file.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    program::{TestDataDir, outcome},
    raw_connection::{Requester, TestCluster},
};

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: RequestResponse, omitManagedFields: true, omitStages: [RequestReceived], resources: [{group: "", resources: [configmaps]}]}
- {level: None, nonResourceURLs: ["/*"]}
"#;

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn find<'l>(lines: &'l [Value], verb: &str, stage: &str, resource: &str) -> &'l Value {
    let is_it = |line: &&Value| {
        line["verb"] == verb && line["stage"] == stage && line["objectRef"]["resource"] == resource
    };
    lines
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{verb} {stage} {resource} in {lines:#?}"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "one log contains all these requests")]
fn audit_log_follows_the_policy() {
    let directory = TestDataDir::new();
    let policy = directory.path().join("policy.yaml");
    let log = directory.path().join("logs/audit.log");
    fs::write(&policy, POLICY).unwrap();
    let policy = format!("--audit-policy-file={}", policy.display());
    let path = format!("--audit-log-path={}", log.display());
    let cluster = TestCluster::start(&[&policy, &path]);
    let secret = br#"{"metadata":{"name":"s"},"stringData":{"password":"hidden"}}"#;
    let mut connection = cluster.admin();
    let headers = "Content-Type: application/json\r\nAudit-ID: mine\r\nUser-Agent: tester\r\n";
    let response = connection.request("POST", "/api/v1/namespaces/default/secrets", headers, secret);
    assert_eq!(response.code, 201);
    assert!(response.head.contains("audit-id: mine"), "{}", response.head);
    let config_map = br#"{"metadata":{"name":"c"},"data":{"shown":"yes"}}"#;
    assert_eq!(
        cluster
            .request("POST", "/api/v1/namespaces/default/configmaps", config_map)
            .code,
        201
    );
    assert_eq!(
        cluster.get("/api/v1/namespaces/default/configmaps/none").code,
        404
    );
    assert_eq!(
        cluster
            .get("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1")
            .code,
        200
    );
    assert_eq!(cluster.get("/api/v1/namespaces/default/configmaps").code, 200);
    assert_eq!(
        cluster
            .request("DELETE", "/api/v1/namespaces/default/configmaps/c", b"")
            .code,
        200
    );
    let headers = "Authorization: Bearer wrong\r\n";
    let response = cluster.connect(Requester::Anonymous, "http/1.1").request(
        "GET",
        "/api/v1/namespaces/default/secrets",
        headers,
        b"",
    );
    assert_eq!(response.code, 401);
    assert_eq!(cluster.server.end_by(Signal::TERM).code(), Some(0));

    let text = fs::read_to_string(&log).unwrap();
    let lines = lines(&text);
    assert!(
        !text.contains("hidden") && !text.contains("managedFields") && !text.contains("Bearer"),
        "{text}"
    );
    let received = find(&lines, "create", "RequestReceived", "secrets");
    let created = find(&lines, "create", "ResponseComplete", "secrets");
    for line in [received, created] {
        assert_eq!(
            (&line["kind"], &line["apiVersion"]),
            (&"Event".into(), &"audit.k8s.io/v1".into())
        );
        assert_eq!(
            (&line["auditID"], &line["level"]),
            (&"mine".into(), &"Metadata".into())
        );
        assert_eq!(line["requestURI"], "/api/v1/namespaces/default/secrets");
        assert_eq!(line["sourceIPs"], serde_json::json!(["127.0.0.1"]));
        assert_eq!(line["userAgent"], "tester");
        assert!(
            line["user"]["groups"]
                .as_array()
                .unwrap()
                .contains(&"system:masters".into())
        );
    }
    assert_eq!(created["objectRef"]["name"], "s");
    assert_eq!(created["responseStatus"]["code"], 201);
    assert_eq!(created["annotations"]["authorization.k8s.io/decision"], "allow");
    let created = find(&lines, "create", "ResponseComplete", "configmaps");
    assert_eq!(created["requestObject"]["data"]["shown"], "yes");
    assert_eq!(created["responseObject"]["metadata"]["namespace"], "default");
    let missing = find(&lines, "get", "ResponseComplete", "configmaps");
    assert_eq!(
        (
            &missing["responseStatus"]["code"],
            &missing["responseStatus"]["reason"]
        ),
        (&404.into(), &"NotFound".into())
    );
    find(&lines, "watch", "ResponseStarted", "configmaps");
    assert!(
        find(&lines, "watch", "ResponseComplete", "configmaps")
            .get("responseObject")
            .is_none()
    );
    assert_eq!(
        find(&lines, "list", "ResponseComplete", "configmaps")["responseObject"]["kind"],
        "ConfigMapList"
    );
    assert_eq!(
        find(&lines, "delete", "ResponseComplete", "configmaps")["responseStatus"]["status"],
        "Success"
    );
    let refused = find(&lines, "list", "ResponseStarted", "secrets");
    assert_eq!(
        refused["responseStatus"]["message"],
        "Authentication failed, attempted: bearer"
    );
    assert!(
        lines.iter().all(|line| line.get("objectRef").is_some()),
        "paths are not written down"
    );
}

#[test]
fn rejects_an_invalid_policy_at_start() {
    let data = TestDataDir::new();
    let policy = data.path().join("policy.yaml");
    fs::write(
        &policy,
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: None}\n- {level: Everything}\n",
    )
    .unwrap();
    let policy = policy.display().to_string();
    let (code, out, error) =
        outcome(&mut data.command(&["--audit-policy-file", &policy, "--audit-log-path=-"]));
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        error.contains(&policy) && error.contains("rules[1].level"),
        "{error}"
    );
    let (code, _, error) = outcome(&mut data.command(&["--audit-log-path=-"]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--audit-policy-file"), "{error}");
}
