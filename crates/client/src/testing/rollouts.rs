//! `rollout`: status, history, undo, pause and resume.

use serde_json::{Value, json};

use super::{CannedServer, json_answer, run, stream};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const LIST: &str = "GET /apis/apps/v1/namespaces/default/deployments?fieldSelector=metadata.name%3Dweb";

fn deployment(status: &Value, paused: &Value) -> Value {
    json!({"kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web", "uid": "u", "generation": 2, "resourceVersion": "5"},
        "spec": {"replicas": 2, "paused": paused, "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "a", "image": "new"}]}}},
        "status": status})
}

fn replica_set(revision: &str, image: &str, owner: &str) -> Value {
    json!({"metadata": {"name": format!("web-{revision}"), "annotations": {"deployment.kubernetes.io/revision": revision,
            "kubernetes.io/change-cause": format!("cause {revision}")},
            "ownerReferences": [{"uid": owner, "controller": true}]},
        "spec": {"template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "x"}},
            "spec": {"containers": [{"name": "a", "image": image}]}}}})
}

fn server(object: &Value) -> CannedServer {
    let sets = json!({"items": [replica_set("10", "new", "u"), replica_set("9", "old", "u"),
        replica_set("11", "foreign", "other")]});
    CannedServer::start()
        .on(&format!("GET {DEPLOYMENT}"), &[json_answer(200, object)])
        .on(
            "GET /apis/apps/v1/namespaces/default/replicasets?labelSelector=app%3Dweb",
            &[json_answer(200, &sets)],
        )
        .on(
            &format!("PATCH {DEPLOYMENT}?fieldManager=k3"),
            &[json_answer(200, &json!({"metadata": {"generation": 3}}))],
        )
}

#[test]
fn status_follows_the_rollout_to_its_end() {
    let status = |updated: i64, available: i64| json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": updated, "availableReplicas": available});
    let event =
        |status: &Value| json!({"type": "MODIFIED", "object": deployment(status, &Value::Null)}).to_string();
    let first = deployment(&status(1, 1), &Value::Null);
    let list = json!({"metadata": {"resourceVersion": "5"}, "items": [first]});
    let events = [event(&status(2, 1)), event(&status(2, 1)), event(&status(2, 2))].join("\n");
    let server = server(&first).on(LIST, &[json_answer(200, &list)]).on(
        &format!("{LIST}&watch=true&resourceVersion=5"),
        &[stream(&events)],
    );
    assert_eq!(
        run(&server, "rollout status deployment/web").success(),
        "Waiting for deployment \"web\" rollout to finish: 1 out of 2 new replicas have been updated...\n\
         Waiting for deployment \"web\" rollout to finish: 1 of 2 updated replicas are available...\n\
         deployment \"web\" successfully rolled out\n"
    );
    assert_eq!(
        run(&server, "rollout status deployment/web --watch=false").success(),
        "Waiting for deployment \"web\" rollout to finish: 1 out of 2 new replicas have been updated...\n"
    );
}

#[test]
fn history_has_the_revisions_of_this_workload_in_the_order_of_their_numbers() {
    let server = server(&deployment(&json!({}), &Value::Null));
    assert_eq!(
        run(&server, "rollout history deployment/web").success(),
        "deployment.apps/web \nREVISION  CHANGE-CAUSE\n9         cause 9\n10        cause 10\n\n"
    );
    let text = run(&server, "rollout history deployment/web --revision=11").failure();
    assert_eq!(text, "error: unable to find the specified revision");
}

#[test]
fn undo_restores_the_template_of_the_revision_before() {
    let server = server(&deployment(&json!({}), &Value::Null));
    assert_eq!(
        run(&server, "rollout undo deployment/web").success(),
        "deployment.apps/web rolled back\n"
    );
    let sent = server.requests().pop().unwrap();
    assert_eq!(sent.content_type, "application/json-patch+json");
    let patch: Value = serde_json::from_str(&sent.body).unwrap();
    assert_eq!(patch[0]["path"], "/spec/template");
    assert_eq!(patch[0]["value"]["spec"]["containers"][0]["image"], "old");
    // The hash belongs to the ReplicaSet, not to the template.
    assert_eq!(patch[0]["value"]["metadata"]["labels"], json!({"app": "web"}));
}

#[test]
fn undo_fails_without_such_a_revision_and_while_paused() {
    let server_of = |paused: bool| server(&deployment(&json!({}), &json!(paused)));
    let text = run(&server_of(false), "rollout undo deployment/web --to-revision=4").failure();
    assert!(
        text.contains("unable to find specified revision 4 in history for deployment.apps \"web\""),
        "{text}"
    );
    let text = run(&server_of(true), "rollout undo deployment/web").failure();
    assert!(text.contains("you cannot rollback a paused deployment"), "{text}");
}

#[test]
fn pause_and_resume_change_only_what_they_must() {
    for (line, paused, expected) in [
        (
            "rollout pause deployment/web",
            false,
            Ok("deployment.apps/web paused\n"),
        ),
        (
            "rollout resume deployment/web",
            true,
            Ok("deployment.apps/web resumed\n"),
        ),
        (
            "rollout pause deployment/web",
            true,
            Err("error: deployments.apps \"web\" is already paused"),
        ),
        (
            "rollout resume deployment/web",
            false,
            Err("error: deployments.apps \"web\" is not paused"),
        ),
    ] {
        let server = server(&deployment(&json!({}), &json!(paused)));
        let outcome = run(&server, line);
        let patches: Vec<_> = server
            .requests()
            .into_iter()
            .filter(|request| request.line.starts_with("PATCH"))
            .collect();
        match expected {
            Ok(text) => {
                assert_eq!(outcome.success(), text, "{line}");
                let sent: Value = serde_json::from_str(&patches[0].body).unwrap();
                assert_eq!(sent, json!({"spec": {"paused": !paused}}), "{line}");
            }
            Err(text) => {
                assert_eq!(outcome.failure(), text, "{line}");
                assert!(patches.is_empty(), "{line}");
            }
        }
    }
}
