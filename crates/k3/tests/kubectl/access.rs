//! Who one is, and what is said of what is not there.

use crate::cluster::TestCluster;

#[test]
fn the_kubeconfig_makes_one_an_administrator() {
    let me = TestCluster::start().kubectl("auth whoami");
    assert!(me.contains("kubernetes-admin"), "{me}");
    assert!(me.contains("[system:masters system:authenticated]"), "{me}");
}

#[test]
fn metrics_that_are_not_there_are_a_clear_error() {
    let (_, said) = TestCluster::start().refused("top pods");
    assert!(said.contains("Metrics API not available"), "{said}");
}

#[test]
fn what_does_not_exist_is_told_by_name() {
    let cluster = TestCluster::start();
    let (code, said) = cluster.refused("get pod nobody");
    assert_eq!(code, 1);
    assert_eq!(said, "Error from server (NotFound): pods \"nobody\" not found\n");
    let (_, said) = cluster.refused("get gadgets");
    assert!(
        said.contains("the server doesn't have a resource type \"gadgets\""),
        "{said}"
    );
}

#[test]
fn a_pod_without_a_node_has_an_empty_log_and_takes_no_commands() {
    let cluster = TestCluster::start();
    cluster.kubectl("run web --image=nginx");
    assert_eq!(cluster.kubectl("logs web"), "");
    let (_, said) = cluster.refused("exec web -- ls");
    assert!(said.contains("does not have a host assigned"), "{said}");
}
