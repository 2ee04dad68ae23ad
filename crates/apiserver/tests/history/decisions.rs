//! What decides about requests: roles, policies, webhooks, quotas, addresses, the pods of nodes, definitions.

use http::Method;
use serde_json::{Value, json};

use crate::{
    client::{Client, TestResponse},
    kinds::{define, remove_definition},
};

const CONFIG_MAPS: &str = "/api/v1/namespaces/tenant/configmaps";
const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Stores what decides before the gap.
pub(crate) async fn store_first(client: &Client) {
    for name in ["tenant", "limited"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        client.create("/api/v1/namespaces", &namespace).await;
    }
    grant(client, "early").await;
    forbid(client, "old").await;
    forbid(client, "retired").await;
    hook(client, "old").await;
    mount_secret(client, "old").await;
    define(client, "olds", "Old").await;
}

/// Has a server use all that it has stored, so that it remembers it.
pub(crate) async fn use_first(client: &Client) {
    // A consistent read: what was stored until now is known.
    client.get(CONFIG_MAPS).await;
    assert_eq!(list_as(client, "early").await, 200);
    assert_eq!(list_as(client, "late").await, 403);
    for label in ["old", "retired"] {
        let refused = create_labelled(client, "forbidden", label).await;
        assert!(refused.text.contains("policy denies"), "{}", refused.text);
    }
    let refused = create_labelled(client, "hooked", "old").await;
    assert!(
        refused.text.contains("failed calling webhook"),
        "{}",
        refused.text
    );
    assert_eq!(read_secret(client, "old").await, 200);
    assert_eq!(read_secret(client, "new").await, 403);
    let olds = client.get("/apis/history.example.com/v1/olds").await;
    assert_eq!(olds.code, 200);
}

/// Changes what decides, in the gap. Gives an address that is in use from then on.
pub(crate) async fn change(client: &Client) -> String {
    revoke(client, "early").await;
    client.create(ROLE_BINDINGS, &role_binding("late")).await;
    forbid(client, "new").await;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    client.delete(&format!("{policies}/retired")).await;
    hook(client, "new").await;
    client.delete("/api/v1/namespaces/tenant/pods/mounts-old").await;
    mount_secret(client, "new").await;
    remove_definition(client, "olds").await;
    define(client, "notices", "Notice").await;

    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"configmaps": "0"}}});
    let quotas = "/api/v1/namespaces/limited/resourcequotas";
    let mut quota = client.create(quotas, &quota).await;
    quota["status"] = json!({"hard": {"configmaps": "0"}, "used": {"configmaps": "0"}});
    let path = format!("{quotas}/none/status");
    let reply = client.retry(Method::PUT, &path, Some(&quota)).await;
    assert_eq!(reply.code, 200, "{}", reply.text);

    let service = service("taken", Value::Null);
    let services = "/api/v1/namespaces/tenant/services";
    let service = client.create(services, &service).await;
    service["spec"]["clusterIP"].as_str().unwrap().to_owned()
}

/// Checks that a server decides by what was changed.
pub(crate) async fn check_changed(client: &Client, address: &str) {
    assert_eq!(list_as(client, "early").await, 403, "a binding was deleted");
    assert_eq!(list_as(client, "late").await, 200, "a binding was created");
    for label in ["old", "new"] {
        let refused = create_labelled(client, "forbidden", label).await;
        assert_eq!(refused.code, 422, "policy {label}: {}", refused.text);
        assert!(refused.text.contains("policy denies"), "{}", refused.text);
        let refused = create_labelled(client, "hooked", label).await;
        assert_eq!(refused.code, 500, "webhook {label}: {}", refused.text);
        assert!(
            refused.text.contains("failed calling webhook"),
            "{}",
            refused.text
        );
    }
    let allowed = create_labelled(client, "forbidden", "retired").await;
    assert_eq!(
        allowed.code, 201,
        "the binding of a policy was deleted: {}",
        allowed.text
    );
    assert_eq!(read_secret(client, "old").await, 403, "a pod was deleted");
    assert_eq!(read_secret(client, "new").await, 200, "a pod was created");
    let olds = client.get("/apis/history.example.com/v1/olds").await;
    assert_eq!(olds.code, 404, "a definition was deleted: {}", olds.text);
    let notices = client.get("/apis/history.example.com/v1/notices").await;
    assert_eq!(notices.code, 200, "a definition was created: {}", notices.text);
    let group = client.get("/apis/history.example.com/v1").await;
    assert!(
        group.text.contains("notices") && !group.text.contains("olds"),
        "{}",
        group.text
    );

    let over = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "over"}});
    let path = "/api/v1/namespaces/limited/configmaps";
    let refused = client.retry(Method::POST, path, Some(&over)).await;
    assert_eq!(refused.code, 403, "a quota was created: {}", refused.text);
    let path = "/api/v1/namespaces/tenant/services";
    let twice = service("twice", address.into());
    let refused = client.retry(Method::POST, path, Some(&twice)).await;
    assert_eq!(refused.code, 422, "an address was given: {}", refused.text);
}

/// Lets a user read config maps.
pub(crate) async fn grant(client: &Client, user: &str) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    });
    client
        .create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
        .await;
    client.create(ROLE_BINDINGS, &role_binding(user)).await;
}

/// Takes back what `grant` gave.
pub(crate) async fn revoke(client: &Client, user: &str) {
    client.delete(&format!("{ROLE_BINDINGS}/{user}")).await;
}

fn role_binding(user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

async fn list_as(client: &Client, user: &str) -> u16 {
    client.with_user(user, "people").get(CONFIG_MAPS).await.code
}

/// A policy that refuses config maps with a label.
async fn forbid(client: &Client, label: &str) {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": label},
        "spec": {
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"]}],
                "objectSelector": {"matchLabels": {"forbidden": label}},
            },
            "validations": [{"expression": "false", "message": "policy denies"}],
        },
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    client.create(path, &policy).await;
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": label}, "spec": {"policyName": label, "validationActions": ["Deny"]},
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    client.create(path, &binding).await;
}

/// A webhook without a server, for config maps with a label.
async fn hook(client: &Client, label: &str) {
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": label},
        "webhooks": [{
            "name": format!("{label}.history.example.com"),
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["configmaps"]}],
            "objectSelector": {"matchLabels": {"hooked": label}},
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 1,
        }],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    client.create(path, &hook).await;
}

async fn create_labelled(client: &Client, label: &str, value: &str) -> TestResponse {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{label}-{value}"), "labels": {label: value}}});
    client.retry(Method::POST, CONFIG_MAPS, Some(&object)).await
}

/// A pod on the node `n1`, with a secret.
async fn mount_secret(client: &Client, name: &str) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    client.create("/api/v1/namespaces/tenant/secrets", &secret).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("mounts-{name}")},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": name}}],
        },
    });
    client.create("/api/v1/namespaces/tenant/pods", &pod).await;
}

async fn read_secret(client: &Client, name: &str) -> u16 {
    let node = client.with_user("system:node:n1", "system:nodes");
    let path = format!("/api/v1/namespaces/tenant/secrets/{name}");
    node.get(&path).await.code
}

fn service(name: &str, address: Value) -> Value {
    let mut spec = json!({"ports": [{"port": 80}]});
    if !address.is_null() {
        spec["clusterIP"] = address;
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}
