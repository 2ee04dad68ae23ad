//! What nodes may do, by rule.

use k3_api::strategy::User;
use serde_json::{Value, json};

use super::super::{
    Decision, Object, What,
    testing::{World, object, user},
};
use k3_api::selector::field::Selector;

fn node(name: &str) -> User {
    user(&format!("system:node:{name}"), &["system:nodes"])
}

fn pod(name: &str, node: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = json!(node);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "spec": spec})
}

fn reason(world: &World, who: &User, verb: &str, what: Object<'_>) -> String {
    match world.ask(who, verb, What::Object(what)) {
        Decision::NoOpinion(reason) => reason,
        other @ Decision::Allow(_) => panic!("{verb} {what:?}: {other:?}"),
    }
}

#[tokio::test]
async fn a_node_reads_what_its_pods_refer_to_and_nothing_else() {
    let world = World::new().await;
    let spec = json!({
        "serviceAccountName": "account",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "from"}}]}],
        "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "key"}}},
            {"valueFrom": {"configMapKeyRef": {"name": "key"}}}]}],
        "volumes": [
            {"name": "s", "secret": {"secretName": "volume"}},
            {"name": "m", "configMap": {"name": "volume"}},
            {"name": "p", "projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "part"}}]}},
            {"name": "c", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {}},
        ],
        "resourceClaims": [{"name": "r", "resourceClaimName": "device"}],
    });
    world.put(&pod("p", "n1", &spec)).await;
    let (own, other) = (node("n1"), node("n2"));
    let may = |who: &User, what: &str, name: &str| world.may(who, "get", what, "a", name);
    for (what, names) in [
        ("secrets", &["pull", "from", "key", "volume", "part", "csi"][..]),
        ("configmaps", &["from", "key", "volume", "part"]),
        ("persistentvolumeclaims", &["claim", "p-e"]),
        ("serviceaccounts", &["account"]),
        ("resource.k8s.io:resourceclaims", &["device"]),
        ("pods", &["p"]),
    ] {
        for name in names {
            assert!(may(&own, what, name), "{what} {name}");
            assert!(!may(&other, what, name), "{what} {name}");
            assert!(!world.may(&own, "get", what, "b", name), "{what} {name}");
        }
        assert!(!may(&own, what, "other") && !world.may(&own, "delete", what, "a", "x") || what == "pods");
    }
    let refused = "node: no relationship found between node 'n2' and this object";
    assert_eq!(
        reason(&world, &other, "get", object("secrets", "a", "pull")),
        refused
    );
    world.remove(&pod("p", "n1", &spec)).await;
    assert!(!may(&own, "secrets", "pull") && !may(&own, "pods", "p"));
}

#[tokio::test]
async fn a_mirror_pod_gives_its_node_nothing() {
    let world = World::new().await;
    let mut mirror = pod("m", "n1", &json!({"imagePullSecrets": [{"name": "s"}]}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    world.put(&mirror).await;
    assert!(world.may(&node("n1"), "get", "pods", "a", "m"));
    assert!(!world.may(&node("n1"), "get", "secrets", "a", "s"));
}

#[tokio::test]
async fn a_node_reads_the_volumes_of_its_claims_and_their_secrets() {
    let world = World::new().await;
    let claim = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    let volume = |claim: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
            "claimRef": {"namespace": "a", "name": claim},
            "csi": {"nodeStageSecretRef": {"namespace": "s", "name": "stage"},
                "controllerPublishSecretRef": {"namespace": "s", "name": "controller"}}}})
    };
    world.put(&pod("p", "n1", &claim)).await;
    world.put(&volume("c")).await;
    let may = |who: &User| {
        [
            world.may(who, "get", "persistentvolumes", "", "v"),
            world.may(who, "get", "secrets", "s", "stage"),
        ]
    };
    assert_eq!(may(&node("n1")), [true, true]);
    assert_eq!(may(&node("n2")), [false, false]);
    assert!(!world.may(&node("n1"), "get", "secrets", "s", "controller"));
    world.put(&volume("other")).await;
    assert_eq!(may(&node("n1")), [false, false]);
}

#[tokio::test]
async fn a_node_has_what_is_its_own() {
    let world = World::new().await;
    for (version, kind) in [
        ("storage.k8s.io/v1", "VolumeAttachment"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("certificates.k8s.io/v1", "PodCertificateRequest"),
    ] {
        let mut owned = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "o"}, "spec": {"nodeName": "n1"}});
        if kind == "PodCertificateRequest" {
            owned["metadata"]["namespace"] = json!("a");
        }
        world.put(&owned).await;
    }
    for (who, may) in [(node("n1"), true), (node("n2"), false)] {
        assert_eq!(
            world.may(&who, "get", "storage.k8s.io:volumeattachments", "", "o"),
            may
        );
        assert_eq!(
            world.may(&who, "delete", "resource.k8s.io:resourceslices", "", "o"),
            may
        );
        assert_eq!(
            world.may(
                &who,
                "get",
                "certificates.k8s.io:podcertificaterequests",
                "a",
                "o"
            ),
            may
        );
        assert_eq!(
            world.may(
                &who,
                "update",
                "coordination.k8s.io:leases",
                "kube-node-lease",
                "n1"
            ),
            may
        );
        assert_eq!(world.may(&who, "patch", "storage.k8s.io:csinodes", "", "n1"), may);
        assert_eq!(world.may(&who, "get", "nodes", "", "n1"), may);
    }
    let n1 = node("n1");
    assert!(world.may(&n1, "create", "nodes", "", "") && world.may(&n1, "patch", "nodes/status", "", "n2"));
    assert!(
        world.may(&n1, "create", "serviceaccounts/token", "a", "x")
            == world.may(&n1, "get", "serviceaccounts", "a", "x")
    );
    // And what all nodes have.
    assert!(world.may(&n1, "list", "services", "", "") && !world.may(&n1, "delete", "services", "a", "x"));
}

#[tokio::test]
async fn a_node_lists_what_it_selects_by_its_own_name() {
    let world = World::new().await;
    let who = node("n1");
    for what in [
        "pods",
        "resource.k8s.io:resourceslices",
        "certificates.k8s.io:podcertificaterequests",
    ] {
        let may = |text: &str| {
            let selector = Selector::parse(text).unwrap();
            let mut object = object(what, "", "");
            object.fields = selector.terms();
            matches!(world.ask(&who, "list", What::Object(object)), Decision::Allow(_))
        };
        assert!(may("spec.nodeName=n1") && may("a=b,spec.nodeName=n1"), "{what}");
        assert!(
            !may("spec.nodeName=n2") && !may("spec.nodeName!=n1") && !may(""),
            "{what}"
        );
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of refusals")]
async fn a_refusal_says_why() {
    let world = World::new().await;
    for (verb, what, namespace, name, why) in [
        (
            "create",
            "secrets",
            "a",
            "",
            "can only read resources of this type",
        ),
        (
            "list",
            "secrets",
            "",
            "",
            "can only read namespaced object of this type",
        ),
        ("list", "secrets", "a", "", "No Object name found"),
        (
            "list",
            "persistentvolumes",
            "",
            "",
            "can only get individual resources of this type",
        ),
        (
            "get",
            "persistentvolumes/status",
            "",
            "v",
            "cannot get subresource",
        ),
        (
            "get",
            "persistentvolumeclaims/status",
            "a",
            "v",
            "can only get/update/patch this type",
        ),
        (
            "list",
            "serviceaccounts",
            "a",
            "",
            "can only create tokens for individual service accounts",
        ),
        (
            "create",
            "serviceaccounts",
            "a",
            "x",
            "can only create token subresource of serviceaccount",
        ),
        (
            "list",
            "coordination.k8s.io:leases",
            "a",
            "",
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            "get",
            "coordination.k8s.io:leases",
            "a",
            "n",
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (
            "get",
            "coordination.k8s.io:leases",
            "kube-node-lease",
            "m",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "get",
            "storage.k8s.io:csinodes",
            "",
            "m",
            "can only access CSINode with the same name as the requesting node",
        ),
        (
            "list",
            "nodes",
            "",
            "",
            "node 'n' cannot read all nodes, only its own Node object",
        ),
        (
            "get",
            "nodes",
            "",
            "m",
            "node 'n' cannot read 'm', only its own Node object",
        ),
        (
            "list",
            "pods",
            "",
            "",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "delete",
            "certificates.k8s.io:podcertificaterequests",
            "a",
            "x",
            "nodes may not delete podcertificaterequests",
        ),
    ] {
        let told = reason(&world, &node("n"), verb, object(what, namespace, name));
        assert_eq!(told, format!("node: {why}"), "{verb} {what}");
    }
    assert_eq!(reason(&world, &node("n"), "delete", object("nodes", "", "n")), "");
    assert_eq!(
        reason(&world, &node(""), "get", object("nodes", "", "n")),
        "node: unknown node for user \"system:node:\""
    );
    // A user with such a name that is in no such group is no node.
    assert_eq!(
        reason(
            &world,
            &user("system:node:n", &[]),
            "get",
            object("nodes", "", "n")
        ),
        ""
    );
}
