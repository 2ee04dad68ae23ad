//! Paths that want to be somewhere else.

use serde_json::json;

use crate::wire::Cluster;

#[test]
fn a_name_that_is_a_way_leads_nowhere() {
    let cluster = Cluster::start(&[]);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hidden"}}).to_string();
    assert_eq!(
        cluster
            .ask(
                "POST",
                "/api/v1/namespaces/kube-system/secrets",
                secret.as_bytes()
            )
            .code,
        201
    );
    for path in [
        "/api/v1/namespaces/default/configmaps/.",
        "/api/v1/namespaces/default/configmaps/..",
        "/api/v1/namespaces/default/configmaps/%2e%2e",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fkube-system%2fsecrets%2fs",
        "/api/v1/namespaces/default/configmaps/a%25b",
        "/api/v1/namespaces/default/configmaps/a%00b",
        "/api/v1/namespaces/default/../kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/../../kube-system/secrets/s",
        "/api/v1/namespaces/default%2fsecrets/secrets/s",
        "/api/v1/namespaces/%2e%2e/secrets/s",
        "//api/v1/../v1/secrets",
    ] {
        let answer = cluster.get(path);
        assert!(
            matches!(answer.code, 400 | 404 | 405),
            "{path}: {} {}",
            answer.code,
            answer.text()
        );
        assert!(!answer.text().contains("hidden"), "{path}");
    }
    for name in [".", "..", "a/b", "a%b", "../kube-system/s"] {
        let body = json!({"metadata": {"name": name}}).to_string();
        let answer = cluster.ask("POST", "/api/v1/namespaces/default/configmaps", body.as_bytes());
        assert_eq!(answer.code, 422, "{name}: {}", answer.text());
    }
    cluster.assert_well();
}

#[test]
fn a_list_does_not_reach_its_neighbours() {
    let cluster = Cluster::start(&[]);
    for namespace in ["foo", "foobar"] {
        let body = json!({"metadata": {"name": namespace}}).to_string();
        assert_eq!(
            cluster.ask("POST", "/api/v1/namespaces", body.as_bytes()).code,
            201
        );
        let body = json!({"metadata": {"name": format!("of-{namespace}")}}).to_string();
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        assert_eq!(cluster.ask("POST", &path, body.as_bytes()).code, 201);
    }
    let listed = cluster.get("/api/v1/namespaces/foo/secrets").tree();
    let names: Vec<_> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["of-foo"]);
    let left = cluster.ask("DELETE", "/api/v1/namespaces/foo/secrets", b"");
    assert_eq!(left.code, 200);
    assert_eq!(
        cluster.get("/api/v1/namespaces/foobar/secrets/of-foobar").code,
        200
    );
}

#[test]
fn a_namespace_has_nothing_cluster_wide_in_it() {
    let cluster = Cluster::start(&[]);
    for path in [
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/persistentvolumes/a",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles/cluster-admin",
        "/api/v1/namespaces/default/namespaces/kube-system",
    ] {
        let answer = cluster.get(path);
        assert_eq!(answer.code, 404, "{path}: {}", answer.text());
    }
    assert_eq!(
        cluster
            .get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
            .code,
        200
    );
}
