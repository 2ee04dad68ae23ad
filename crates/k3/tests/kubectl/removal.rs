//! Objects go, alone or with what depends on them.

use serde_json::json;

use crate::cluster::TestCluster;

#[test]
fn what_depends_on_a_deleted_object_is_left_to_whoever_collects() {
    let cluster = TestCluster::start();
    for (cascade, finalizers) in [
        ("orphan", json!(["orphan"])),
        ("foreground", json!(["foregroundDeletion"])),
    ] {
        cluster.kubectl(&format!("create deployment {cascade} --image=nginx"));
        cluster.kubectl(&format!(
            "delete deployment {cascade} --wait=false --cascade={cascade}"
        ));
        let meta = cluster.get(&format!("deployment {cascade}"))["metadata"].clone();
        assert_eq!(meta["finalizers"], finalizers, "{cascade}");
        assert!(meta["deletionTimestamp"].is_string(), "{cascade}");
    }
}

#[test]
fn an_object_that_nothing_holds_is_gone_when_kubectl_returns() {
    let cluster = TestCluster::start();
    cluster.kubectl("create deployment web --image=nginx");
    let said = cluster.kubectl("delete deployment web --cascade=background");
    assert_eq!(said, "deployment.apps \"web\" deleted\n");
    let (_, said) = cluster.refused("get deployment web");
    assert!(said.contains("NotFound"), "{said}");
}

#[test]
fn all_of_a_label_go_at_once() {
    let cluster = TestCluster::start();
    for name in ["a", "b", "c"] {
        cluster.kubectl(&format!("create configmap {name}"));
    }
    cluster.kubectl("label configmap a b go=yes");
    cluster.kubectl("delete configmap -l go=yes");
    assert_eq!(cluster.kubectl("get configmap -o name"), "configmap/c\n");
}
