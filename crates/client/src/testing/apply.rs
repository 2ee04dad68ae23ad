//! `apply`: what is sent, and what conflicts become.

use std::io::Write;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{CannedServer, json_answer, run_arguments};

const OBJECT: &str = "/api/v1/namespaces/default/configmaps/a";
const APPLY: &str = "PATCH /api/v1/namespaces/default/configmaps/a?fieldManager=k3&force=";

fn manifest() -> NamedTempFile {
    let mut file = NamedTempFile::with_suffix(".yaml").unwrap();
    file.write_all(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n")
        .unwrap();
    file
}

fn object(version: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value},
        "metadata": {"name": "a", "namespace": "default", "resourceVersion": version}})
}

fn conflict(managers: &[&str]) -> Value {
    let causes: Vec<Value> = managers
        .iter()
        .map(|manager| json!({"reason": "FieldManagerConflict", "field": ".data.k", "message": format!("conflict with {manager:?}: .data.k")}))
        .collect();
    json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict",
        "details": {"causes": causes}})
}

fn apply(server: &CannedServer, flags: &[&str]) -> super::CommandOutcome {
    let file = manifest();
    let path = file.path().to_str().unwrap();
    let arguments = ["apply", "-f", path].into_iter().chain(flags.iter().copied());
    run_arguments(server, arguments)
}

#[test]
fn reports_what_became_of_the_object() {
    let missing = json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"});
    for (before, after, word) in [
        (json_answer(404, &missing), object("1", "v"), "created"),
        (json_answer(200, &object("1", "v")), object("1", "v"), "unchanged"),
        (
            json_answer(200, &object("1", "old")),
            object("2", "v"),
            "configured",
        ),
    ] {
        let server = CannedServer::start()
            .on(&format!("GET {OBJECT}"), &[before])
            .on(&format!("{APPLY}false"), &[json_answer(200, &after)]);
        assert_eq!(apply(&server, &[]).success(), format!("configmap/a {word}\n"));
        let sent = server.requests().pop().unwrap();
        assert_eq!(sent.content_type, "application/apply-patch+yaml");
        let sent: Value = serde_json::from_str(&sent.body).unwrap();
        assert_eq!(sent["data"], json!({"k": "v"}));
    }
}

#[test]
fn conflicts_with_others_are_reported_and_only_forced_on_request() {
    let server = CannedServer::start()
        .on(&format!("GET {OBJECT}"), &[json_answer(200, &object("1", "old"))])
        .on(
            &format!("{APPLY}false"),
            &[json_answer(409, &conflict(&["helm"]))],
        )
        .on(&format!("{APPLY}true"), &[json_answer(200, &object("2", "v"))]);
    let text = apply(&server, &[]).failure();
    assert!(text.contains("Apply failed with 1 conflict"), "{text}");
    assert!(server.lines().iter().all(|line| !line.ends_with("force=true")));
    assert_eq!(
        apply(&server, &["--force-conflicts"]).success(),
        "configmap/a configured\n"
    );
}

#[test]
fn conflicts_with_other_commands_of_the_same_manager_are_taken_over() {
    let server = CannedServer::start()
        .on(&format!("GET {OBJECT}"), &[json_answer(200, &object("1", "old"))])
        .on(&format!("{APPLY}false"), &[json_answer(409, &conflict(&["k3"]))])
        .on(&format!("{APPLY}true"), &[json_answer(200, &object("2", "v"))]);
    assert_eq!(apply(&server, &[]).success(), "configmap/a configured\n");
}

#[test]
fn a_client_dry_run_writes_nothing() {
    let server = CannedServer::start().on(&format!("GET {OBJECT}"), &[json_answer(200, &object("1", "old"))]);
    apply(&server, &["--dry-run=client"]).success();
    assert_eq!(server.lines(), [format!("GET {OBJECT}")]);
}

#[test]
fn nothing_is_sent_while_a_kind_is_unknown() {
    let server = CannedServer::start();
    let mut file = manifest();
    file.write_all(b"---\napiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n")
        .unwrap();
    let text = run_arguments(&server, ["apply", "-f", file.path().to_str().unwrap()]).failure();
    assert!(text.contains("no matches for kind \"Nothing\""), "{text}");
    assert_eq!(server.lines(), [""; 0]);
}
