//! Paths that want to be somewhere else.

use serde_json::json;

use crate::raw_connection::TestCluster;

#[test]
fn names_with_path_separators_are_not_found() {
    let cluster = TestCluster::start(&[]);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hidden"}}).to_string();
    assert_eq!(
        cluster
            .request(
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
        let response = cluster.get(path);
        assert!(
            matches!(response.code, 400 | 404 | 405),
            "{path}: {} {}",
            response.code,
            response.text()
        );
        assert!(!response.text().contains("hidden"), "{path}");
    }
    for name in [".", "..", "a/b", "a%b", "../kube-system/s"] {
        let body = json!({"metadata": {"name": name}}).to_string();
        let response = cluster.request("POST", "/api/v1/namespaces/default/configmaps", body.as_bytes());
        assert_eq!(response.code, 422, "{name}: {}", response.text());
    }
    cluster.assert_healthy();
}

#[test]
fn lists_exclude_resources_with_the_same_prefix() {
    let cluster = TestCluster::start(&[]);
    for namespace in ["foo", "foobar"] {
        let body = json!({"metadata": {"name": namespace}}).to_string();
        assert_eq!(
            cluster
                .request("POST", "/api/v1/namespaces", body.as_bytes())
                .code,
            201
        );
        let body = json!({"metadata": {"name": format!("of-{namespace}")}}).to_string();
        let path = format!("/api/v1/namespaces/{namespace}/secrets");
        assert_eq!(cluster.request("POST", &path, body.as_bytes()).code, 201);
    }
    let listed = cluster.get("/api/v1/namespaces/foo/secrets").tree();
    let names: Vec<_> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["of-foo"]);
    let left = cluster.request("DELETE", "/api/v1/namespaces/foo/secrets", b"");
    assert_eq!(left.code, 200);
    assert_eq!(
        cluster.get("/api/v1/namespaces/foobar/secrets/of-foobar").code,
        200
    );
}

#[test]
fn cluster_scoped_resources_are_not_in_namespaces() {
    let cluster = TestCluster::start(&[]);
    for path in [
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/persistentvolumes/a",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles/cluster-admin",
        "/api/v1/namespaces/default/namespaces/kube-system",
    ] {
        let response = cluster.get(path);
        assert_eq!(response.code, 404, "{path}: {}", response.text());
    }
    assert_eq!(
        cluster
            .get("/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin")
            .code,
        200
    );
}

#[test]
fn reports_missing_subresources_of_custom_objects() {
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
    let response = cluster.request("POST", definitions, definition.to_string().as_bytes());
    assert_eq!(response.code, 201, "{}", response.text());
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
        let response = cluster.request(method, path, b"");
        assert_eq!(
            (response.code, response.text().as_str()),
            (404, "404 page not found\n"),
            "{method} {path}"
        );
    }
    let objects = "/apis/b.c/v1/namespaces/default/as";
    let error_of = |method: &str, path: &str| {
        let status = cluster.request(method, &format!("{objects}{path}"), b"{}").tree();
        (status["code"].clone(), status["message"].clone())
    };
    assert_eq!(
        error_of("GET", "/x/scale"),
        (json!(404), json!("as.b.c \"x\" not found"))
    );
    assert_eq!(
        error_of("POST", "/x/status"),
        (
            json!(405),
            json!("create is not supported on resources of kind \"as.b.c\"")
        )
    );
    assert_eq!(error_of("PUT", ""), (json!(400), json!("name must be provided")));
    let object = json!({"apiVersion": "b.c/v1", "kind": "A", "metadata": {"name": "x"}}).to_string();
    let created = cluster.request("POST", &format!("{objects}/another"), object.as_bytes());
    assert_eq!(
        (created.code, &created.tree()["metadata"]["name"]),
        (201, &json!("x"))
    );
    let media = "Content-Type: application/strategic-merge-patch+json\r\n";
    let refused = cluster
        .admin()
        .request("PATCH", &format!("{objects}/x"), media, b"{}");
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
