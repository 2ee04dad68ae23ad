//! kubectl finds out what there is.

use crate::cluster::TestCluster;

#[test]
fn lists_resources_with_short_names() {
    let cluster = TestCluster::start();
    let resources = cluster.kubectl("api-resources");
    for columns in [
        &["pods", "po", "v1", "true", "Pod"][..],
        &["namespaces", "ns", "v1", "false", "Namespace"],
        &["deployments", "deploy", "apps/v1", "true", "Deployment"],
        &["cronjobs", "cj", "batch/v1", "true", "CronJob"],
        &[
            "storageclasses",
            "sc",
            "storage.k8s.io/v1",
            "false",
            "StorageClass",
        ],
    ] {
        let is_line = |line: &str| line.split_whitespace().eq(columns.iter().copied());
        assert!(
            resources.lines().any(is_line),
            "{columns:?} is missing in:\n{resources}"
        );
    }
    let namespaced = cluster.kubectl("api-resources --namespaced=false --verbs=list -o name");
    assert!(namespaced.lines().any(|line| line == "nodes"), "{namespaced}");
    assert!(!namespaced.lines().any(|line| line == "pods"), "{namespaced}");
}

#[test]
fn health_lists_each_check() {
    let cluster = TestCluster::start();
    assert_eq!(cluster.kubectl("get --raw /readyz"), "ok");
    let verbose = cluster.kubectl("get --raw /readyz?verbose");
    assert!(verbose.contains("[+]ping ok"), "{verbose}");
    assert!(verbose.contains("readyz check passed"), "{verbose}");
}

#[test]
fn reports_the_kubernetes_version() {
    let version = TestCluster::start().kubectl("version -o json");
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    let text = version["serverVersion"]["gitVersion"].as_str().unwrap();
    assert!(text.starts_with("v1.37."), "{text}");
}

#[test]
fn fields_are_explained() {
    let cluster = TestCluster::start();
    let all = cluster.kubectl("explain pod.spec.containers --recursive");
    for field in ["imagePullPolicy", "livenessProbe", "resources", "volumeMounts"] {
        assert!(all.contains(field), "{field} is missing in:\n{all}");
    }
    let one = cluster.kubectl("explain deployment.spec.replicas");
    assert!(one.contains("FIELD: replicas <integer>"), "{one}");
    assert!(one.contains("Defaults to 1"), "{one}");
}
