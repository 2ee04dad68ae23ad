//! kubectl waits, and sees what happens.

use std::io::BufRead;

use crate::cluster::{RunningKubectl, TestCluster};

/// The next line, as its words.
fn next(following: &mut RunningKubectl) -> Vec<String> {
    let mut line = String::new();
    following.lines.read_line(&mut line).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_watch_shows_what_is_there_and_then_what_happens() {
    let cluster = TestCluster::start();
    cluster.kubectl("run first --image=nginx");
    let mut pods = cluster.follow("get pods -A -o wide --watch");
    let header = next(&mut pods);
    assert_eq!(
        header[..6],
        ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    );
    assert_eq!(next(&mut pods)[..4], ["default", "first", "0/1", "Pending"]);
    cluster.kubectl("run second --image=nginx");
    assert_eq!(next(&mut pods)[..4], ["default", "second", "0/1", "Pending"]);
    cluster.kubectl("label pod first app=shop");
    assert_eq!(next(&mut pods)[..2], ["default", "first"]);
}

#[test]
fn a_condition_is_waited_for() {
    let cluster = TestCluster::start();
    cluster.kubectl("create deployment web --image=nginx");
    let mut waiting = cluster.follow("wait deployment/web --for=condition=Available --timeout=60s");
    let status = r#"{"status": {"conditions": [{"type": "Available", "status": "True"}]}}"#;
    cluster.kubectl_with(&[
        "patch",
        "deployment",
        "web",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    ]);
    assert_eq!(next(&mut waiting), ["deployment.apps/web", "condition", "met"]);
}

#[test]
fn an_end_is_waited_for() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap settings");
    let mut waiting = cluster.follow("wait configmap/settings --for=delete --timeout=60s");
    cluster.kubectl("delete configmap settings");
    let said = next(&mut waiting);
    // Nothing is said where it was gone already.
    assert!(
        said.is_empty() || said == ["configmap/settings", "condition", "met"],
        "{said:?}"
    );
    let (_, said) = cluster.refused("get configmap settings");
    assert!(said.contains("NotFound"), "{said}");
}

#[test]
fn a_wait_for_what_does_not_come_ends_with_an_error() {
    let cluster = TestCluster::start();
    cluster.kubectl("create deployment web --image=nginx");
    let (_, said) = cluster.refused("wait deployment/web --for=condition=Available --timeout=1s");
    assert!(said.contains("timed out waiting for the condition"), "{said}");
}

#[test]
fn a_watch_ends_with_the_server_and_does_not_hold_it_up() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap settings");
    let mut watching = cluster.follow("get configmap --watch -o name");
    assert_eq!(next(&mut watching), ["configmap/settings"]);
    assert_eq!(cluster.stop().code(), Some(0));
    assert!(next(&mut watching).is_empty());
}
