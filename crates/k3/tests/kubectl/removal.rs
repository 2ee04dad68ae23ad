//! Objects go, alone or with what depends on them.

use serde_json::json;

use crate::cluster::TestCluster;

#[test]
fn dependents_are_left_to_the_garbage_collector() {
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
fn objects_without_finalizers_are_removed_at_once() {
    let cluster = TestCluster::start();
    cluster.kubectl("create deployment web --image=nginx");
    let message = cluster.kubectl("delete deployment web --cascade=background");
    assert_eq!(message, "deployment.apps \"web\" deleted\n");
    let (_, message) = cluster.kubectl_error("get deployment web");
    assert!(message.contains("NotFound"), "{message}");
}

#[test]
fn deletes_by_label() {
    let cluster = TestCluster::start();
    for name in ["a", "b", "c"] {
        cluster.kubectl(&format!("create configmap {name}"));
    }
    cluster.kubectl("label configmap a b go=yes");
    cluster.kubectl("delete configmap -l go=yes");
    assert_eq!(cluster.kubectl("get configmap -o name"), "configmap/c\n");
}
