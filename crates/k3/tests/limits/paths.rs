//! Paths that want to be somewhere else.

use serde_json::json;

use crate::wire::TestCluster;

#[test]
fn a_name_that_is_a_way_leads_nowhere() {
    let cluster = TestCluster::start(&[]);
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
    let cluster = TestCluster::start(&[]);
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
    let cluster = TestCluster::start(&[]);
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

#[test]
fn a_path_beside_custom_objects_says_what_it_lacks() {
    let cluster = TestCluster::start(&[]);
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}});
    let definition = json!({
        "metadata": {"name": "as.b.c"},
        "spec": {
            "group": "b.c", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"}, "versions": [version],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = cluster.ask("POST", definitions, definition.to_string().as_bytes());
    assert_eq!(answer.code, 201, "{}", answer.text());
    let is_served = |_| cluster.get("/apis/b.c/v1/as").code == 200;
    assert!((0..10_000).any(is_served), "it is not served");
    // What leads to none of its objects leads to no page at all.
    for (method, path) in [
        ("GET", "/apis/b.c/v1/bs"),
        ("GET", "/apis/b.c/v2/as"),
        ("GET", "/apis/b.c/v1/as/x"),
        ("POST", "/apis/b.c/v1/as"),
        ("DELETE", "/apis/b.c/v1/as"),
    ] {
        let answer = cluster.ask(method, path, b"");
        assert_eq!(
            (answer.code, answer.text().as_str()),
            (404, "404 page not found\n"),
            "{method} {path}"
        );
    }
    let objects = "/apis/b.c/v1/namespaces/default/as";
    let told = |method: &str, path: &str| {
        let status = cluster.ask(method, &format!("{objects}{path}"), b"{}").tree();
        (status["code"].clone(), status["message"].clone())
    };
    assert_eq!(
        told("GET", "/x/scale"),
        (json!(404), json!("as.b.c \"x\" not found"))
    );
    assert_eq!(
        told("POST", "/x/status"),
        (
            json!(405),
            json!("create is not supported on resources of kind \"as.b.c\"")
        )
    );
    assert_eq!(told("PUT", ""), (json!(400), json!("name must be provided")));
    let object = json!({"apiVersion": "b.c/v1", "kind": "A", "metadata": {"name": "x"}}).to_string();
    let created = cluster.ask("POST", &format!("{objects}/another"), object.as_bytes());
    assert_eq!(
        (created.code, &created.tree()["metadata"]["name"]),
        (201, &json!("x"))
    );
    let media = "Content-Type: application/strategic-merge-patch+json\r\n";
    let refused = cluster
        .admin()
        .ask("PATCH", &format!("{objects}/x"), media, b"{}");
    assert_eq!(
        (refused.code, &refused.tree()["message"]),
        (
            415,
            &json!(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )
        )
    );
}
