//! Servers that answer garbage, or close the connection early.

use serde_json::json;

use super::{CannedServer, cut_off, json_answer, raw, run};

const POD: &str = "GET /api/v1/namespaces/default/pods/web";

fn failure(answer: Vec<u8>) -> String {
    let server = CannedServer::start().on(POD, &[answer]);
    run(&server, "get pod web -o json").failure()
}

#[test]
fn an_error_that_is_no_status_keeps_its_text_and_code() {
    for (answer, expected) in [
        (
            raw(502, "upstream is down\n"),
            "Error from server (BadGateway): upstream is down",
        ),
        (
            raw(401, "no"),
            "error: You must be logged in to the server (Unauthorized)",
        ),
        // JSON, but not a status.
        (
            raw(500, "{\"message\": \"x\"}"),
            "Error from server (InternalServerError): {\"message\": \"x\"}",
        ),
        (
            json_answer(
                403,
                &json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}),
            ),
            "Error from server (Forbidden): no",
        ),
    ] {
        assert_eq!(failure(answer), expected);
    }
}

#[test]
fn a_body_that_is_no_json_names_the_path() {
    for body in ["", "{", "<html></html>", "{\"kind\": \"Pod\"} trailing"] {
        let text = failure(raw(200, body));
        assert!(
            text.starts_with(
                "error: the server sent an invalid response to /api/v1/namespaces/default/pods/web: "
            ),
            "{body:?}: {text}"
        );
    }
}

/// Half an object must not be printed as if it were whole.
#[test]
fn a_body_that_is_cut_off_is_an_error() {
    let text = failure(cut_off("{\"kind\": \"Pod\"}"));
    assert!(
        text.starts_with("Unable to connect to the server 127.0.0.1:"),
        "{text}"
    );
}

#[test]
fn bytes_that_are_no_http_are_an_error() {
    for bytes in [&b""[..], b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 two hundred\r\n\r\n"] {
        let text = failure(bytes.to_vec());
        assert!(
            text.starts_with("Unable to connect to the server 127.0.0.1:"),
            "{text}"
        );
    }
}

#[test]
fn a_server_without_discovery_has_no_resource_types() {
    let server = CannedServer::without_discovery();
    let text = run(&server, "get pods").failure();
    assert_eq!(text, "Error from server (NotFound): no answer to GET /api");
    let empty = json!({"kind": "APIGroupDiscoveryList", "items": []});
    let server = CannedServer::without_discovery()
        .on("GET /api", &[json_answer(200, &empty)])
        .on("GET /apis", &[json_answer(200, &empty)]);
    let text = run(&server, "get pods").failure();
    assert_eq!(text, "error: the server doesn't have a resource type \"pods\"");
}

/// Servers before 1.26 list versions and their resources instead.
#[test]
fn resources_are_found_without_aggregated_discovery() {
    let versions = json!({"kind": "APIVersions", "versions": ["v1"]});
    let groups = json!({"kind": "APIGroupList", "groups": [
        {"name": "absent.example.com", "versions": [{"groupVersion": "absent.example.com/v1"}]}]});
    let resources = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "verbs": ["get"], "shortNames": ["po"]},
        {"name": "pods/log", "namespaced": true, "kind": "Pod", "verbs": ["get"]}]});
    let server = CannedServer::without_discovery()
        .on("GET /api", &[json_answer(200, &versions)])
        .on("GET /apis", &[json_answer(200, &groups)])
        .on("GET /api/v1", &[json_answer(200, &resources)])
        .on(
            POD,
            &[json_answer(
                200,
                &json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web"}}),
            )],
        );
    assert_eq!(run(&server, "get po web -o name").success(), "pod/web\n");
    // The API of a server that is down is left out, and what it serves is unknown.
    let text = run(&server, "get widgets.absent.example.com").failure();
    assert!(text.contains("doesn't have a resource type"), "{text}");
}
