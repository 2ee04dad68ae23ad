//! Authentication and not-found errors.

use crate::cluster::TestCluster;

#[test]
fn the_kubeconfig_is_for_an_administrator() {
    let me = TestCluster::start().kubectl("auth whoami");
    assert!(me.contains("kubernetes-admin"), "{me}");
    assert!(me.contains("[system:masters system:authenticated]"), "{me}");
}

#[test]
fn reports_a_missing_metrics_api() {
    let (_, message) = TestCluster::start().kubectl_error("top pods");
    assert!(message.contains("Metrics API not available"), "{message}");
}

#[test]
fn not_found_errors_name_the_object() {
    let cluster = TestCluster::start();
    let (code, message) = cluster.kubectl_error("get pod missing");
    assert_eq!(code, 1);
    assert_eq!(
        message,
        "Error from server (NotFound): pods \"missing\" not found\n"
    );
    let (_, message) = cluster.kubectl_error("get gadgets");
    assert!(
        message.contains("the server doesn't have a resource type \"gadgets\""),
        "{message}"
    );
}

#[test]
fn logs_and_exec_of_an_unscheduled_pod() {
    let cluster = TestCluster::start();
    cluster.kubectl("run web --image=nginx");
    assert_eq!(cluster.kubectl("logs web"), "");
    let (_, message) = cluster.kubectl_error("exec web -- ls");
    assert!(message.contains("does not have a host assigned"), "{message}");
}
