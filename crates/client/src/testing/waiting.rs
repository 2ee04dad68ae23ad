//! `wait`: conditions that objects meet now, later or never.

use serde_json::{Value, json};

use super::{CannedServer, json_answer, run, stream};

const POD: &str = "GET /api/v1/namespaces/default/pods/a";
const LIST: &str = "GET /api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Da";

fn pod(ready: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"},
        "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn server(items: &[Value], events: &str) -> CannedServer {
    let list = json!({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": items});
    let missing =
        json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "pods \"a\" not found"});
    let object = match items.first() {
        Some(item) => json_answer(200, item),
        None => json_answer(404, &missing),
    };
    CannedServer::start()
        .on(POD, &[object])
        .on(LIST, &[json_answer(200, &list)])
        .on(
            &format!("{LIST}&watch=true&resourceVersion=5"),
            &[stream(events), stream("")],
        )
}

#[test]
fn ends_when_the_condition_is_met() {
    let event = json!({"type": "MODIFIED", "object": pod("True")}).to_string();
    for (items, events) in [(vec![pod("True")], ""), (vec![pod("False")], event.as_str())] {
        let server = server(&items, events);
        assert_eq!(
            run(&server, "wait pod/a --for=condition=Ready").success(),
            "pod/a condition met\n"
        );
    }
}

#[test]
fn an_object_that_is_deleted_cannot_meet_it_any_more() {
    let event = json!({"type": "DELETED", "object": pod("False")}).to_string();
    let server = server(&[pod("False")], &event);
    let text = run(&server, "wait pod/a --for=condition=Ready").failure();
    assert!(
        text.contains("was deleted before the condition was met"),
        "{text}"
    );
}

#[test]
fn gives_up_after_its_timeout() {
    let server = server(&[pod("False")], "");
    let text = run(&server, "wait pod/a --for=condition=Ready --timeout=200ms").failure();
    assert_eq!(text, "error: timed out waiting for the condition on pods/a");
}

#[test]
fn a_list_without_a_revision_is_an_error_and_not_an_endless_loop() {
    let server = CannedServer::start()
        .on(POD, &[json_answer(200, &pod("False"))])
        .on(LIST, &[json_answer(200, &json!({"items": [pod("False")]}))]);
    let text = run(&server, "wait pod/a --for=condition=Ready --timeout=5s").failure();
    assert!(text.contains("a list without resourceVersion"), "{text}");
}
