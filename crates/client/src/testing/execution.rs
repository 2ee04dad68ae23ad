//! `exec`: servers that refuse, or do not speak WebSocket.

use serde_json::{Value, json};

use super::{CannedServer, json_answer, raw, run};

const POD: &str = "/api/v1/namespaces/default/pods/web";
const EXEC: &str = "GET /api/v1/namespaces/default/pods/web/exec?command=tar&command=cf&command=-&container=a&stdout=true&stderr=true";

fn server(phase: &str, answer: Vec<u8>) -> CannedServer {
    let pod: Value = json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "a"}]}, "status": {"phase": phase}});
    CannedServer::start()
        .on(&format!("GET {POD}"), &[json_answer(200, &pod)])
        .on(EXEC, &[answer])
}

#[test]
fn reports_what_the_server_answers_instead_of_a_stream() {
    let refused =
        json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "pods/exec is forbidden"});
    for (answer, expected) in [
        (
            json_answer(403, &refused),
            "Error from server (Forbidden): pods/exec is forbidden",
        ),
        (
            raw(200, "hello"),
            "error: the server does not speak WebSocket: it answered 200 OK",
        ),
        (
            raw(502, "bad gateway"),
            "Error from server (BadGateway): bad gateway",
        ),
    ] {
        let server = server("Running", answer);
        assert_eq!(run(&server, "exec web -- tar cf -").failure(), expected);
    }
}

#[test]
fn a_completed_pod_runs_nothing() {
    for phase in ["Succeeded", "Failed"] {
        let server = server(phase, raw(500, ""));
        assert_eq!(
            run(&server, "exec web -- tar cf -").failure(),
            format!("error: cannot exec into a container in a completed pod; current phase is {phase}")
        );
    }
}

/// A stream that ends without a status leaves the outcome of the command unknown: it is no success.
#[test]
fn a_connection_that_ends_early_is_an_error() {
    let upgrade = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-protocol: v5.channel.k8s.io\r\n\r\n";
    // A binary frame with output, then the end of the connection.
    let output = [&upgrade[..], b"\x82\x04\x01out"].concat();
    let server_of = |answer: &[u8]| server("Running", answer.to_vec());
    let outcome = run(&server_of(&output), "exec web -- tar cf -");
    assert_eq!(outcome.printed, "out");
    assert!(outcome.error.is_some_and(|error| error.code() == 1));
    // A status that cannot be read.
    let garbage = [&upgrade[..], b"\x82\x02\x03x"].concat();
    let text = run(&server_of(&garbage), "exec web -- tar cf -").failure();
    assert!(text.contains("the server sent an invalid exit status"), "{text}");
}
