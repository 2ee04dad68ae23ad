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
fn watch_lists_objects_and_then_changes() {
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
fn waits_for_a_condition() {
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
fn waits_for_deletion() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap settings");
    let mut waiting = cluster.follow("wait configmap/settings --for=delete --timeout=60s");
    cluster.kubectl("delete configmap settings");
    let message = next(&mut waiting);
    // Nothing is said where it was gone already.
    assert!(
        message.is_empty() || message == ["configmap/settings", "condition", "met"],
        "{message:?}"
    );
    let (_, message) = cluster.kubectl_error("get configmap settings");
    assert!(message.contains("NotFound"), "{message}");
}

#[test]
fn wait_times_out() {
    let cluster = TestCluster::start();
    cluster.kubectl("create deployment web --image=nginx");
    let (_, message) = cluster.kubectl_error("wait deployment/web --for=condition=Available --timeout=1s");
    assert!(
        message.contains("timed out waiting for the condition"),
        "{message}"
    );
}

#[test]
fn watches_do_not_delay_a_stop() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap settings");
    let mut watching = cluster.follow("get configmap --watch -o name");
    assert_eq!(next(&mut watching), ["configmap/settings"]);
    assert_eq!(cluster.stop().code(), Some(0));
    assert!(next(&mut watching).is_empty());
}
