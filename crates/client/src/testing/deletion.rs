//! `delete`: options, and waiting until objects are removed.

use serde_json::{Value, json};

use super::{CannedServer, json_answer, run, stream};

const POD: &str = "/api/v1/namespaces/default/pods/a";
const LIST: &str = "GET /api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Da";

fn pod(uid: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "uid": uid, "resourceVersion": "5"}})
}

fn list(items: &[Value]) -> Value {
    json!({"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": items})
}

fn options(line: &str) -> Value {
    let server = CannedServer::start().on(&format!("DELETE {POD}"), &[json_answer(200, &pod("u"))]);
    run(&server, line).success();
    serde_json::from_str(&server.requests().pop().unwrap().body).unwrap()
}

#[test]
fn sends_the_options_of_its_flags() {
    for (flags, policy, grace) in [
        ("", "Background", Value::Null),
        (" --cascade=foreground", "Foreground", Value::Null),
        (" --cascade=orphan --grace-period=0", "Orphan", json!(1)),
        (" --now", "Background", json!(1)),
        (" --force", "Background", json!(0)),
        (" --force --grace-period=30", "Background", json!(30)),
    ] {
        let sent = options(&format!("delete pod a --wait=false{flags}"));
        assert_eq!(sent["propagationPolicy"], policy, "{flags}");
        assert_eq!(sent["gracePeriodSeconds"], grace, "{flags}");
    }
    assert_eq!(options("delete pod a --dry-run=server")["dryRun"], json!(["All"]));
}

#[test]
fn waits_until_the_object_is_removed() {
    let event = json!({"type": "DELETED", "object": pod("u")}).to_string();
    let server = CannedServer::start()
        .on(&format!("DELETE {POD}"), &[json_answer(200, &pod("u"))])
        .on(LIST, &[json_answer(200, &list(&[pod("u")]))])
        .on(&format!("{LIST}&watch=true&resourceVersion=5"), &[stream(&event)]);
    assert_eq!(run(&server, "delete pod a").success(), "pod \"a\" deleted\n");
    assert_eq!(server.lines().len(), 3);
}

/// A new object of the same name is not the one that was deleted.
#[test]
fn an_object_with_another_uid_is_not_waited_for() {
    let server = CannedServer::start()
        .on(&format!("DELETE {POD}"), &[json_answer(200, &pod("u"))])
        .on(LIST, &[json_answer(200, &list(&[pod("other")]))]);
    run(&server, "delete pod a").success();
    assert_eq!(server.lines().len(), 2);
}

#[test]
fn who_may_not_list_does_not_wait() {
    let forbidden = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"});
    let server = CannedServer::start()
        .on(&format!("DELETE {POD}"), &[json_answer(200, &pod("u"))])
        .on(LIST, &[json_answer(403, &forbidden)]);
    run(&server, "delete pod a").success();
}

#[test]
fn waiting_ends_with_its_timeout() {
    let server = CannedServer::start()
        .on(&format!("DELETE {POD}"), &[json_answer(200, &pod("u"))])
        .on(LIST, &[json_answer(200, &list(&[pod("u")]))])
        .on(&format!("{LIST}&watch=true&resourceVersion=5"), &[stream("")]);
    let text = run(&server, "delete pod a --timeout=300ms").failure();
    assert_eq!(text, "error: timed out waiting for the condition");
    // The watch ends at once each time: it is not asked for without a pause.
    assert!(server.lines().len() < 6, "{:?}", server.lines());
}

#[test]
fn a_missing_object_is_an_error_unless_it_may_be_missing() {
    let missing =
        json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "pods \"a\" not found"});
    let server = CannedServer::start().on(&format!("DELETE {POD}"), &[json_answer(404, &missing)]);
    assert_eq!(
        run(&server, "delete pod a").failure(),
        "Error from server (NotFound): pods \"a\" not found"
    );
    assert_eq!(run(&server, "delete pod a --ignore-not-found").success(), "");
}
