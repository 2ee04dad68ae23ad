//! Objects are made and changed, by every way kubectl has.

use serde_json::json;

use crate::{
    cluster::{POD, TestCluster},
    program::outcome,
};

#[test]
fn a_deployment_is_created_and_scaled() {
    let cluster = TestCluster::start();
    let message = cluster.kubectl("create deployment web --image=nginx:1.27 --replicas=2");
    assert_eq!(message, "deployment.apps/web created\n");
    let message = cluster.kubectl("scale deployment web --replicas=5 --current-replicas=2");
    assert_eq!(message, "deployment.apps/web scaled\n");
    assert_eq!(cluster.get("deployment web")["spec"]["replicas"], 5);
    let table = cluster.kubectl("get deployments");
    assert!(
        table.starts_with("NAME   READY   UP-TO-DATE   AVAILABLE   AGE\nweb    0/5"),
        "{table}"
    );
}

#[test]
fn client_side_apply_updates_and_prunes_fields() {
    let cluster = TestCluster::start();
    let path = cluster.file("pod.yaml", POD);
    let path = path.to_str().unwrap();
    assert_eq!(cluster.kubectl_with(&["apply", "-f", path]), "pod/web created\n");
    assert_eq!(
        cluster.kubectl_with(&["apply", "-f", path]),
        "pod/web unchanged\n"
    );
    cluster.file("pod.yaml", &POD.replace("{app: web}", "{app: shop}"));
    assert_eq!(
        cluster.kubectl_with(&["apply", "-f", path]),
        "pod/web configured\n"
    );
    assert_eq!(
        cluster.get("pod web")["metadata"]["labels"],
        json!({"app": "shop"})
    );
}

#[test]
fn server_side_apply_tracks_field_managers() {
    let cluster = TestCluster::start();
    let path = cluster.file("pod.yaml", POD);
    let path = path.to_str().unwrap();
    let message = cluster.kubectl_with(&["apply", "--server-side", "-f", path]);
    assert_eq!(message, "pod/web serverside-applied\n");
    let managers = cluster.get("pod web")["metadata"]["managedFields"].clone();
    assert_eq!(managers[0]["manager"], "kubectl");
    assert_eq!(managers[0]["operation"], "Apply");

    cluster.file("pod.yaml", &POD.replace("nginx:1.27", "nginx:1.28"));
    let other = ["apply", "--server-side", "--field-manager=other", "-f", path];
    let (_, message) = cluster.kubectl_error(&other.join(" "));
    assert!(message.contains("conflict with \"kubectl\""), "{message}");
    assert!(
        message.contains(".spec.containers[name=\"web\"].image"),
        "{message}"
    );
    cluster.kubectl_with(&[&other[..], &["--force-conflicts"]].concat());
    assert_eq!(
        cluster.get("pod web")["spec"]["containers"][0]["image"],
        "nginx:1.28"
    );
}

#[test]
fn diff_shows_changes() {
    let cluster = TestCluster::start();
    let path = cluster.file("pod.yaml", POD);
    cluster.kubectl_with(&["apply", "-f", path.to_str().unwrap()]);
    cluster.kubectl_with(&["diff", "-f", path.to_str().unwrap()]);
    cluster.file("pod.yaml", &POD.replace("nginx:1.27", "nginx:1.28"));
    let (code, message) = cluster.kubectl_error(&format!("diff -f {}", path.display()));
    assert_eq!(code, 1);
    assert!(
        message.contains("-  - image: nginx:1.27\n+  - image: nginx:1.28\n"),
        "{message}"
    );
    assert_eq!(
        cluster.get("pod web")["spec"]["containers"][0]["image"],
        "nginx:1.27"
    );
}

#[test]
fn an_editor_changes_an_object() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap settings --from-literal=colour=red");
    let mut command = cluster.command();
    command
        .env("KUBE_EDITOR", "sed -i s/red/blue/")
        .args(["edit", "configmap", "settings"]);
    let (code, message, errors) = outcome(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(message, "configmap/settings edited\n");
    assert_eq!(cluster.get("configmap settings")["data"]["colour"], "blue");
}

#[test]
fn sets_and_removes_labels_and_annotations() {
    let cluster = TestCluster::start();
    cluster.kubectl("create configmap settings");
    cluster.kubectl("label configmap settings tier=front");
    cluster.kubectl("annotate configmap settings note=kept");
    let (_, message) = cluster.kubectl_error("label configmap settings tier=back");
    assert!(message.contains("--overwrite"), "{message}");
    assert_eq!(
        cluster.kubectl("get configmap -l tier=front -o name"),
        "configmap/settings\n"
    );
    cluster.kubectl("label configmap settings tier-");
    let meta = cluster.get("configmap settings")["metadata"].clone();
    assert_eq!(meta["annotations"], json!({"note": "kept"}));
    assert!(meta.get("labels").is_none(), "{meta}");
}

#[test]
fn supports_all_patch_types() {
    let cluster = TestCluster::start();
    cluster.kubectl("create deployment web --image=nginx:1.27");
    let patch = |kind: &str, text: &str| {
        cluster.kubectl_with(&["patch", "deployment", "web", "--type", kind, "-p", text]);
        cluster.get("deployment web")["spec"].clone()
    };
    let spec = patch(
        "json",
        r#"[{"op": "replace", "path": "/spec/replicas", "value": 3}]"#,
    );
    assert_eq!(spec["replicas"], 3);
    let spec = patch("merge", r#"{"spec": {"replicas": 4, "paused": true}}"#);
    assert_eq!((&spec["replicas"], &spec["paused"]), (&json!(4), &json!(true)));
    // The list is merged by name: the container that is not named stays.
    let sidecar =
        r#"{"spec": {"template": {"spec": {"containers": [{"name": "log", "image": "busybox"}]}}}}"#;
    let spec = patch("strategic", sidecar);
    assert_eq!(
        spec["template"]["spec"]["containers"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_dry_run_on_the_server_changes_nothing() {
    let cluster = TestCluster::start();
    let message = cluster.kubectl("create configmap settings --dry-run=server -o name");
    assert_eq!(message, "configmap/settings\n");
    assert_eq!(cluster.kubectl("get configmap settings --ignore-not-found"), "");
}

#[test]
fn rejects_unknown_fields() {
    let cluster = TestCluster::start();
    let path = cluster.file("pod.yaml", &POD.replace("image:", "imagge:"));
    let (_, message) = cluster.kubectl_error(&format!("create -f {}", path.display()));
    assert!(
        message.contains("unknown field \"spec.containers[0].imagge\""),
        "{message}"
    );
}

#[test]
fn an_expired_list_continues_at_the_current_revision() {
    let cluster = TestCluster::start();
    for name in ["a", "b", "c"] {
        cluster.kubectl(&format!("create configmap {name}"));
    }
    // What comes with "too old": version 0, behind the name "a".
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhXHUwMDAwIn0";
    let list = cluster.kubectl(&format!(
        "get --raw /api/v1/namespaces/default/configmaps?limit=1&continue={token}"
    ));
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["items"][0]["metadata"]["name"], "b");
    assert!(list["metadata"]["continue"].is_string());
}
