//! `logs`: which containers, and how the logs of several are mixed.

use serde_json::{Value, json};

use super::{CannedServer, json_answer, raw, run, stream};

const POD: &str = "/api/v1/namespaces/default/pods/web";

fn pod() -> Value {
    json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "a"}, {"name": "b"}]}})
}

fn log(container: &str, query: &str) -> String {
    format!("GET {POD}/log?container={container}{query}")
}

fn server() -> CannedServer {
    CannedServer::start().on(&format!("GET {POD}"), &[json_answer(200, &pod())])
}

#[test]
fn prints_the_bytes_of_one_container_as_they_are() {
    let server = server().on(&log("a", ""), &[raw(200, "one\n\ttwo\r\nno end")]);
    assert_eq!(run(&server, "logs web").success(), "one\n\ttwo\r\nno end");
}

#[test]
fn prefixes_each_line_with_its_container() {
    let server = server()
        .on(&log("init", ""), &[raw(200, "first\n")])
        .on(&log("a", ""), &[raw(200, "one\ntwo\n")])
        .on(&log("b", ""), &[raw(200, "")]);
    assert_eq!(
        run(&server, "logs web --all-containers --prefix").success(),
        "[pod/web/init] first\n[pod/web/a] one\n[pod/web/a] two\n"
    );
}

/// Without whole lines the logs of two containers would be mixed within a line.
#[test]
fn followed_logs_of_several_containers_are_mixed_by_lines() {
    let long = |letter: &str| format!("{}\n", letter.repeat(70_000)).repeat(4);
    let server = server()
        .on(&log("init", "&follow=true"), &[stream(&long("i"))])
        .on(&log("a", "&follow=true"), &[stream(&long("a"))])
        .on(&log("b", "&follow=true"), &[stream(&long("b"))]);
    let printed = run(&server, "logs web --all-containers -f").success();
    assert_eq!(printed.len(), 3 * 4 * 70_001);
    for line in printed.lines() {
        let first = line.chars().next().unwrap();
        assert!(line.chars().all(|letter| letter == first), "a line of two logs");
    }
}

#[test]
fn follows_no_more_logs_than_allowed() {
    let text = run(&server(), "logs web --all-containers -f --max-log-requests=2").failure();
    assert!(
        text.contains("you are attempting to follow 3 log streams, but maximum allowed concurrency is 2"),
        "{text}"
    );
}

#[test]
fn sends_the_limits_of_its_flags() {
    let query = "&previous=true&timestamps=true&tailLines=5&sinceSeconds=90&limitBytes=10";
    let server = server().on(&log("b", query), &[raw(200, "x\n")]);
    let line = "logs web b --previous --timestamps --tail=5 --since=90s --limit-bytes=10";
    assert_eq!(run(&server, line).success(), "x\n");
}

#[test]
fn a_log_that_is_refused_is_an_error() {
    let refused = json!({"kind": "Status", "code": 400, "reason": "BadRequest",
        "message": "container \"a\" in pod \"web\" is waiting to start: ContainerCreating"});
    let server = server().on(&log("a", ""), &[json_answer(400, &refused)]);
    assert_eq!(
        run(&server, "logs web").failure(),
        "Error from server (BadRequest): container \"a\" in pod \"web\" is waiting to start: ContainerCreating"
    );
    let text = run(&server, "logs web -c none").failure();
    assert_eq!(text, "error: container none is not valid for pod web");
}
