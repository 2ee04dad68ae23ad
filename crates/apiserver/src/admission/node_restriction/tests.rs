use k3_api::strategy::{TreeMut, User};
use serde_json::json;

use super::{super::testing::TestCluster, *};

/// The response to node `bird`.
fn respond(
    world: &TestCluster,
    operation: Operation,
    part: &str,
    object: Value,
    old: Option<&Value>,
) -> String {
    respond_to(world, "system:node:bird", operation, part, object, old)
}

fn respond_to(
    world: &TestCluster,
    name: &str,
    operation: Operation,
    part: &str,
    object: Value,
    old: Option<&Value>,
) -> String {
    let plugin = NodeRestriction(world.authorizer());
    let mut question = world.question(operation, part, object);
    question.ctx.user = User {
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

async fn world() -> TestCluster {
    let world = TestCluster::new().await;
    world.put(named("Node", "", "bird")).await;
    world.put(on("bird", "mine")).await;
    world.put(on("fish", "other")).await;
    world
}

#[tokio::test]
async fn restricts_only_nodes_and_rejects_unnamed_node() {
    let world = world().await;
    let node = || named("Node", "", "fish");
    assert_eq!(
        respond_to(&world, "system:node:", Operation::Create, "", node(), None),
        "could not determine node from user \"system:node:\""
    );
    assert_eq!(
        respond_to(&world, "bird", Operation::Create, "", node(), None),
        ""
    );
}

#[tokio::test]
async fn node_may_not_change_restricted_labels_or_taints() {
    let world = world().await;
    let with = |change: fn(&mut Value)| {
        let mut node = named("Node", "", "bird");
        change(&mut node);
        node
    };
    let plain = with(|_| {});
    assert_eq!(
        respond(
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
        respond(&world, Operation::Create, "", label.clone(), None),
        format!("node \"bird\" is not allowed to set the following labels: {forbidden}")
    );
    for (new, old) in [(&label, &plain), (&plain, &label)] {
        assert_eq!(
            respond(&world, Operation::Update, "", new.clone(), Some(old)),
            format!("is not allowed to modify labels: {forbidden}")
        );
    }
    let tainted = with(|node| node["spec"] = json!({"taints": [{"key": "x"}]}));
    assert_eq!(respond(&world, Operation::Create, "", tainted.clone(), None), "");
    assert_eq!(
        respond(&world, Operation::Update, "status", tainted, Some(&plain)),
        "node \"bird\" is not allowed to modify taints"
    );
    let owned = with(|node| node["metadata"]["ownerReferences"] = json!([{"name": "x"}]));
    assert_eq!(
        respond(&world, Operation::Update, "", owned, Some(&plain)),
        "node \"bird\" is not allowed to modify ownerReferences"
    );
    let configured = with(|node| node["spec"] = json!({"configSource": {"configMap": {}}}));
    assert_eq!(
        respond(&world, Operation::Create, "", configured.clone(), None),
        "node \"bird\" is not allowed to create pods with a non-nil configSource"
    );
    assert_eq!(
        respond(
            &world,
            Operation::Update,
            "",
            configured.clone(),
            Some(&configured)
        ),
        ""
    );
    assert_eq!(respond(&world, Operation::Delete, "", plain, None), "");
}

#[tokio::test]
async fn node_creates_only_its_own_mirror_pods() {
    let world = world().await;
    assert_eq!(respond(&world, Operation::Create, "", mirror(), None), "");
    let set = |way: &str, value: Value| {
        let mut pod = mirror();
        let mut target = &mut pod;
        let (last, first) = way
            .split('.')
            .rev()
            .collect::<Vec<_>>()
            .split_first()
            .map(|(l, r)| (*l, r.to_vec()))
            .unwrap();
        for part in first.into_iter().rev() {
            target = target.ensure_object(part);
        }
        target.set(last, value);
        respond(&world, Operation::Create, "", pod, None)
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
async fn node_updates_status_and_deletes_only_its_pods() {
    let world = world().await;
    let mine = on("bird", "mine");
    let other = on("fish", "other");
    let only = |what: &str| format!("node \"bird\" can only {what} spec.nodeName set to itself");
    assert_eq!(respond(&world, Operation::Delete, "", mine.clone(), None), "");
    assert_eq!(
        respond(&world, Operation::Delete, "", other.clone(), None),
        only("delete pods with")
    );
    assert_eq!(
        respond(&world, Operation::Update, "", mine.clone(), Some(&mine)),
        "unexpected operation \"UPDATE\", node \"bird\" can only create and delete mirror pods"
    );
    assert_eq!(
        respond(&world, Operation::Create, "binding", mine.clone(), None),
        "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed"
    );
    let update = |change: Value| {
        let mut new = mine.clone();
        new.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        respond(&world, Operation::Update, "status", new, Some(&mine))
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
        respond(&world, Operation::Update, "status", other.clone(), Some(&other)),
        only("update pod status for pods with")
    );
    assert_eq!(respond(&world, Operation::Create, "eviction", mine, None), "");
    assert_eq!(
        respond(&world, Operation::Create, "eviction", other, None),
        "node bird can only evict pods with spec.nodeName set to itself"
    );
    assert_eq!(
        respond(&world, Operation::Create, "eviction", on("bird", "missing"), None),
        "pod \"missing\" not found"
    );
}

#[tokio::test]
async fn node_writes_only_its_lease_csinode_and_resource_slices() {
    let world = world().await;
    let lease = |namespace: &str, name: &str| {
        respond(
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
        respond(&world, Operation::Delete, "", named("CSINode", "", "bird"), None),
        ""
    );
    assert_eq!(
        respond(&world, Operation::Delete, "", named("CSINode", "", "fish"), None),
        "can only access CSINode with the same name as the requesting node"
    );
    let slice = |operation, node: &str| {
        let mut slice = named("ResourceSlice", "", "s");
        slice["spec"] = json!({"nodeName": node});
        respond(&world, operation, "", slice, None)
    };
    assert_eq!(slice(Operation::Create, "bird"), "");
    assert_eq!(
        slice(Operation::Delete, "fish"),
        "can only delete ResourceSlice with the same NodeName as the requesting node"
    );
}

#[tokio::test]
async fn node_updates_only_claim_volume_status() {
    let world = world().await;
    let old = named("PersistentVolumeClaim", "n", "c");
    let update = |part: &str, change: Value| {
        let mut new = old.clone();
        new.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        respond(&world, Operation::Update, part, new, Some(&old))
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
async fn node_gets_tokens_only_for_audiences_of_its_pods() {
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
    let respond_with = |name: &str, uid: &str, audiences: &[&str]| {
        let mut request = named("ServiceAccount", "n", "default");
        request["spec"] = json!({
            "audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
        });
        respond(&world, Operation::Create, "token", request, None)
    };
    let uid = "uid of speaking";
    assert_eq!(respond_with("speaking", uid, &["vault"]), "");
    let why = "error validating audience \"disk\": csidriver.storage.k8s.io \"disk.csi.azure.com\" not found";
    assert_eq!(respond_with("speaking", uid, &["disk"]), why);
    world
        .put(json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disk.csi.azure.com"},
            "spec": {"tokenRequests": [{"audience": "disk"}]},
        }))
        .await;
    assert_eq!(respond_with("speaking", uid, &["disk"]), "");
    assert_eq!(
        respond_with("speaking", uid, &["other"]),
        "system:node:bird is not authorized to request tokens for audience \"other\""
    );
    assert_eq!(
        respond_with("speaking", uid, &["a", "b"]),
        "node may only request 0 or 1 audiences"
    );
    assert_eq!(
        respond_with("", "x", &[]),
        "node requested token not bound to a pod"
    );
    assert_eq!(
        respond_with("speaking", "", &[]),
        "node requested token with a pod binding without a uid"
    );
    assert!(
        respond_with("speaking", "x", &[])
            .starts_with("the UID in the bound object reference (x) does not match")
    );
    assert_eq!(
        respond_with("other", "uid of other", &[]),
        "node requested token bound to a pod scheduled on a different node"
    );
}

#[tokio::test]
async fn node_requests_certificates_only_for_itself_and_its_pods() {
    let world = world().await;
    let mut pod = on("bird", "certified");
    pod["spec"]["serviceAccountName"] = json!("a");
    pod["spec"]["volumes"] =
        json!([{"projected": {"sources": [{"podCertificate": {"signerName": "x.io/y"}}]}}]);
    world.put(pod).await;
    world.put(named("ServiceAccount", "n", "a")).await;
    let respond_with = |change: Value| {
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
        respond(&world, Operation::Create, "", request, None)
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
            json!({"podName": "missing"}),
            "while retrieving pod \"n/missing\" named in the PodCertificateRequest: pod \"missing\" not found",
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
        assert_eq!(respond_with(change), why);
    }
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
        "spec": {"signerName": "kubernetes.io/kubelet-serving", "request": "eA=="},
    });
    assert_eq!(
        respond(&world, Operation::Create, "", request, None),
        "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
    );
}
