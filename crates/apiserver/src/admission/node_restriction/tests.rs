use k3_api::strategy::{TreeMut, User};
use serde_json::json;

use super::{super::testing::World, *};

/// What node `bird` is told.
fn say(world: &World, operation: Operation, part: &str, object: Value, old: Option<&Value>) -> String {
    say_to(world, "system:node:bird", operation, part, object, old)
}

fn say_to(
    world: &World,
    name: &str,
    operation: Operation,
    part: &str,
    object: Value,
    old: Option<&Value>,
) -> String {
    let plugin = NodeRestriction(world.authorizer());
    let mut question = world.question(operation, part, object);
    question.ask.user = User {
        name: name.to_owned(),
        groups: vec!["system:nodes".to_owned()],
        ..User::default()
    };
    let refused = world.put_to(&plugin, &mut question, old).err();
    let why = refused.map(|status| status.message).unwrap_or_default();
    why.split_once(" is forbidden: ")
        .map_or(why.clone(), |(_, why)| why.to_owned())
}

fn named(kind: &str, namespace: &str, name: &str) -> Value {
    let version = match kind {
        "Lease" => "coordination.k8s.io/v1",
        "CSINode" => "storage.k8s.io/v1",
        "ResourceSlice" => "resource.k8s.io/v1",
        _ => "v1",
    };
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": format!("uid of {name}")}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn on(node: &str, name: &str) -> Value {
    let mut pod = named("Pod", "n", name);
    pod["spec"] = json!({"nodeName": node});
    pod
}

/// A mirror pod as a node makes it.
fn mirror() -> Value {
    let mut pod = on("bird", "m");
    pod["metadata"]["annotations"] = json!({MIRROR: "x"});
    pod["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Node", "name": "bird", "uid": "uid of bird", "controller": true},
    ]);
    pod
}

async fn world() -> World {
    let world = World::new().await;
    world.put(named("Node", "", "bird")).await;
    world.put(on("bird", "mine")).await;
    world.put(on("fish", "other")).await;
    world
}

#[tokio::test]
async fn only_nodes_are_restricted_and_every_node_has_a_name() {
    let world = world().await;
    let node = || named("Node", "", "fish");
    assert_eq!(
        say_to(&world, "system:node:", Operation::Create, "", node(), None),
        "could not determine node from user \"system:node:\""
    );
    assert_eq!(say_to(&world, "bird", Operation::Create, "", node(), None), "");
}

#[tokio::test]
async fn a_node_changes_itself_but_for_what_draws_pods_to_it() {
    let world = world().await;
    let with = |change: fn(&mut Value)| {
        let mut node = named("Node", "", "bird");
        change(&mut node);
        node
    };
    let plain = with(|_| {});
    assert_eq!(
        say(
            &world,
            Operation::Update,
            "status",
            named("Node", "", "fish"),
            Some(&plain)
        ),
        "node \"bird\" is not allowed to modify node \"fish\""
    );
    let label = with(|node| {
        node["metadata"]["labels"] = json!({
            "kubernetes.io/os": "linux", "node.kubernetes.io/x": "", "a.kubelet.kubernetes.io/x": "", "example.com/x": "", "x": "",
            "k8s.io/x": "", "b.kubernetes.io/x": "", "node-restriction.kubernetes.io/x": "", "a.node-restriction.kubernetes.io/x": "",
        });
    });
    let forbidden =
        "a.node-restriction.kubernetes.io/x, b.kubernetes.io/x, k8s.io/x, node-restriction.kubernetes.io/x";
    assert_eq!(
        say(&world, Operation::Create, "", label.clone(), None),
        format!("node \"bird\" is not allowed to set the following labels: {forbidden}")
    );
    for (new, old) in [(&label, &plain), (&plain, &label)] {
        assert_eq!(
            say(&world, Operation::Update, "", new.clone(), Some(old)),
            format!("is not allowed to modify labels: {forbidden}")
        );
    }
    let tainted = with(|node| node["spec"] = json!({"taints": [{"key": "x"}]}));
    assert_eq!(say(&world, Operation::Create, "", tainted.clone(), None), "");
    assert_eq!(
        say(&world, Operation::Update, "status", tainted, Some(&plain)),
        "node \"bird\" is not allowed to modify taints"
    );
    let owned = with(|node| node["metadata"]["ownerReferences"] = json!([{"name": "x"}]));
    assert_eq!(
        say(&world, Operation::Update, "", owned, Some(&plain)),
        "node \"bird\" is not allowed to modify ownerReferences"
    );
    let configured = with(|node| node["spec"] = json!({"configSource": {"configMap": {}}}));
    assert_eq!(
        say(&world, Operation::Create, "", configured.clone(), None),
        "node \"bird\" is not allowed to create pods with a non-nil configSource"
    );
    assert_eq!(
        say(
            &world,
            Operation::Update,
            "",
            configured.clone(),
            Some(&configured)
        ),
        ""
    );
    assert_eq!(say(&world, Operation::Delete, "", plain, None), "");
}

#[tokio::test]
async fn a_node_makes_mirror_pods_of_its_own() {
    let world = world().await;
    assert_eq!(say(&world, Operation::Create, "", mirror(), None), "");
    let set = |way: &str, value: Value| {
        let mut pod = mirror();
        let mut place = &mut pod;
        let (last, first) = way
            .split('.')
            .rev()
            .collect::<Vec<_>>()
            .split_first()
            .map(|(l, r)| (*l, r.to_vec()))
            .unwrap();
        for part in first.into_iter().rev() {
            place = place.ensure_object(part);
        }
        place.set(last, value);
        say(&world, Operation::Create, "", pod, None)
    };
    let owner = |change: Value| {
        let mut owner = mirror()["metadata"]["ownerReferences"][0].clone();
        owner
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        set("metadata.ownerReferences", json!([owner]))
    };
    let can = |what: &str| format!("node \"bird\" can only create pods with {what} set to itself");
    for (said, why) in [
        (
            set("metadata.annotations", json!({})),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"bird\" can only create mirror pods".to_owned(),
        ),
        (set("spec.nodeName", json!("fish")), can("spec.nodeName")),
        (set("metadata.ownerReferences", json!([])), can("an owner reference")),
        (set("metadata.ownerReferences", json!([{}, {}])), can("a single owner reference")),
        (owner(json!({"name": "fish"})), can("an owner reference")),
        (owner(json!({"controller": false})), can("a controller owner reference")),
        (
            owner(json!({"blockOwnerDeletion": true})),
            "node \"bird\" must not set blockOwnerDeletion on an owner reference".to_owned(),
        ),
        (owner(json!({"uid": "x"})), "node bird UID mismatch: expected x got uid of bird".to_owned()),
    ] {
        assert_eq!(said, why);
    }
    for (field, value, what) in [
        ("serviceAccountName", json!("x"), "serviceaccounts"),
        ("imagePullSecrets", json!([{"name": "x"}]), "secrets"),
        (
            "containers",
            json!([{"envFrom": [{"secretRef": {"name": "x"}}]}]),
            "secrets",
        ),
        (
            "containers",
            json!([{"env": [{"valueFrom": {"configMapKeyRef": {"name": "x"}}}]}]),
            "configmaps",
        ),
        ("resourceClaims", json!([{}]), "resourceclaims"),
        (
            "volumes",
            json!([{"hostPath": {}}, {"csi": {}}]),
            "csidrivers (via CSI volumes)",
        ),
        (
            "volumes",
            json!([{"projected": {"sources": [{"serviceAccountToken": {}}]}}]),
            "serviceaccounts (via projected volumes)",
        ),
        (
            "volumes",
            json!([{"persistentVolumeClaim": {}}]),
            "persistentvolumeclaims",
        ),
    ] {
        assert_eq!(
            set(&format!("spec.{field}"), value),
            format!("node \"bird\" can not create pods that reference {what}")
        );
    }
    assert_eq!(
        set("spec.volumes", json!([{"name": "v"}])),
        "error checking mirror pod for API references: unknown volume type for volume  \"v\""
    );
}

#[tokio::test]
async fn a_node_tells_about_its_own_pods_and_ends_them() {
    let world = world().await;
    let (mine, other) = (on("bird", "mine"), on("fish", "other"));
    let only = |what: &str| format!("node \"bird\" can only {what} spec.nodeName set to itself");
    assert_eq!(say(&world, Operation::Delete, "", mine.clone(), None), "");
    assert_eq!(
        say(&world, Operation::Delete, "", other.clone(), None),
        only("delete pods with")
    );
    assert_eq!(
        say(&world, Operation::Update, "", mine.clone(), Some(&mine)),
        "unexpected operation \"UPDATE\", node \"bird\" can only create and delete mirror pods"
    );
    assert_eq!(
        say(&world, Operation::Create, "binding", mine.clone(), None),
        "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed"
    );
    let update = |change: Value| {
        let mut new = mine.clone();
        new.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        say(&world, Operation::Update, "status", new, Some(&mine))
    };
    assert_eq!(update(json!({"status": {"phase": "Running"}})), "");
    assert_eq!(
        update(json!({"metadata": {"labels": {"a": "b"}}})),
        "node \"bird\" cannot update labels through pod status"
    );
    assert_eq!(
        update(json!({"status": {"resourceClaimStatuses": [{"name": "x"}]}})),
        "node \"bird\" cannot update resource claim statues"
    );
    assert_eq!(
        say(&world, Operation::Update, "status", other.clone(), Some(&other)),
        only("update pod status for pods with")
    );
    assert_eq!(say(&world, Operation::Create, "eviction", mine, None), "");
    assert_eq!(
        say(&world, Operation::Create, "eviction", other, None),
        "node bird can only evict pods with spec.nodeName set to itself"
    );
    assert_eq!(
        say(&world, Operation::Create, "eviction", on("bird", "gone"), None),
        "pod \"gone\" not found"
    );
}

#[tokio::test]
async fn a_node_has_one_lease_one_csinode_and_slices_of_its_own() {
    let world = world().await;
    let lease = |namespace: &str, name: &str| {
        say(
            &world,
            Operation::Create,
            "",
            named("Lease", namespace, name),
            None,
        )
    };
    assert_eq!(lease("kube-node-lease", "bird"), "");
    assert_eq!(
        lease("kube-node-lease", "fish"),
        "can only access node lease with the same name as the requesting node"
    );
    assert_eq!(
        lease("n", "bird"),
        "can only access leases in the \"kube-node-lease\" system namespace"
    );
    assert_eq!(
        say(&world, Operation::Delete, "", named("CSINode", "", "bird"), None),
        ""
    );
    assert_eq!(
        say(&world, Operation::Delete, "", named("CSINode", "", "fish"), None),
        "can only access CSINode with the same name as the requesting node"
    );
    let slice = |operation, node: &str| {
        let mut slice = named("ResourceSlice", "", "s");
        slice["spec"] = json!({"nodeName": node});
        say(&world, operation, "", slice, None)
    };
    assert_eq!(slice(Operation::Create, "bird"), "");
    assert_eq!(
        slice(Operation::Delete, "fish"),
        "can only delete ResourceSlice with the same NodeName as the requesting node"
    );
}

#[tokio::test]
async fn a_node_tells_of_a_claim_only_what_its_volume_is() {
    let world = world().await;
    let old = named("PersistentVolumeClaim", "n", "c");
    let update = |part: &str, change: Value| {
        let mut new = old.clone();
        new.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        say(&world, Operation::Update, part, new, Some(&old))
    };
    assert_eq!(
        update(
            "status",
            json!({"status": {"capacity": {"storage": "1"}, "conditions": [{}]}})
        ),
        ""
    );
    assert_eq!(update("", json!({})), "may only update PVC status");
    assert!(
        update("status", json!({"spec": {"volumeName": "v"}})).starts_with(
            "node \"bird\" is not allowed to update fields other than status.quantity and status.conditions: "
        )
    );
}

#[tokio::test]
async fn a_node_gets_tokens_for_those_its_pods_speak_to() {
    let world = world().await;
    let mut pod = on("bird", "speaking");
    pod["spec"]["volumes"] = json!([
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
        {"name": "d", "persistentVolumeClaim": {"claimName": "c"}},
    ]);
    world.put(pod).await;
    let mut claim = named("PersistentVolumeClaim", "n", "c");
    claim["spec"] = json!({"volumeName": "v"});
    world.put(claim).await;
    let mut volume = named("PersistentVolume", "", "v");
    volume["spec"] = json!({"azureDisk": {}});
    world.put(volume).await;
    let ask = |name: &str, uid: &str, audiences: &[&str]| {
        let mut request = named("ServiceAccount", "n", "default");
        request["spec"] = json!({
            "audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
        });
        say(&world, Operation::Create, "token", request, None)
    };
    let uid = "uid of speaking";
    assert_eq!(ask("speaking", uid, &["vault"]), "");
    let why = "error validating audience \"disk\": csidriver.storage.k8s.io \"disk.csi.azure.com\" not found";
    assert_eq!(ask("speaking", uid, &["disk"]), why);
    world
        .put(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disk.csi.azure.com"},
            "spec": {"tokenRequests": [{"audience": "disk"}]},
        }))
        .await;
    assert_eq!(ask("speaking", uid, &["disk"]), "");
    assert_eq!(
        ask("speaking", uid, &["other"]),
        "system:node:bird is not authorized to request tokens for audience \"other\""
    );
    assert_eq!(
        ask("speaking", uid, &["a", "b"]),
        "node may only request 0 or 1 audiences"
    );
    assert_eq!(ask("", "x", &[]), "node requested token not bound to a pod");
    assert_eq!(
        ask("speaking", "", &[]),
        "node requested token with a pod binding without a uid"
    );
    assert!(
        ask("speaking", "x", &[]).starts_with("the UID in the bound object reference (x) does not match")
    );
    assert_eq!(
        ask("other", "uid of other", &[]),
        "node requested token bound to a pod scheduled on a different node"
    );
}

#[tokio::test]
async fn a_node_gets_certificates_for_its_pods_and_for_itself() {
    let world = world().await;
    let mut pod = on("bird", "certified");
    pod["spec"]["serviceAccountName"] = json!("a");
    pod["spec"]["volumes"] =
        json!([{"projected": {"sources": [{"podCertificate": {"signerName": "x.io/y"}}]}}]);
    world.put(pod).await;
    world.put(named("ServiceAccount", "n", "a")).await;
    let ask = |change: Value| {
        let mut spec = json!({
            "nodeName": "bird", "nodeUID": "uid of bird", "podName": "certified", "podUID": "uid of certified",
            "serviceAccountName": "a", "serviceAccountUID": "uid of a", "signerName": "x.io/y",
        });
        spec.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
            "metadata": {"name": "r", "namespace": "n"}, "spec": spec,
        });
        say(&world, Operation::Create, "", request, None)
    };
    for (change, why) in [
        (json!({}), ""),
        (
            json!({"nodeName": "fish"}),
            "PodCertificateRequest.Spec.NodeName=\"fish\", which is not the requesting node \"bird\"",
        ),
        (
            json!({"nodeUID": "x"}),
            "PodCertificateRequest for pod \"n/certified\" names node UID \"x\", inconsistent with the running node (\"uid of bird\")",
        ),
        (
            json!({"podName": "gone"}),
            "while retrieving pod \"n/gone\" named in the PodCertificateRequest: pod \"gone\" not found",
        ),
        (
            json!({"podName": "other", "podUID": "uid of other"}),
            "pod \"n/other\" is not running on node \"bird\" named in the PodCertificateRequest",
        ),
        (
            json!({"serviceAccountName": "b"}),
            "PodCertificateRequest for pod \"n/certified\" contains serviceAccountName (\"b\") that differs from running pod (\"a\")",
        ),
        (
            json!({"signerName": "z.io/y"}),
            "pod \"n/certified\" does not mount a podCertificate projected volume for signer \"z.io/y\"",
        ),
    ] {
        assert_eq!(ask(change), why);
    }
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
        "spec": {"signerName": "kubernetes.io/kubelet-serving", "request": "eA=="},
    });
    assert_eq!(
        say(&world, Operation::Create, "", request, None),
        "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
    );
}
