//! Authorization with kubectl.

use k8s_openapi::ByteString;

use crate::cluster::TestCluster;

/// A cluster in which alice may do something to configmaps and roles in one of two namespaces.
fn cluster(verbs: &str) -> TestCluster {
    let cluster = TestCluster::start();
    cluster.kubectl("create namespace red");
    cluster.kubectl("create namespace blue");
    cluster.kubectl(&format!(
        "create role dev -n red --verb={verbs} --resource=configmaps,roles.rbac.authorization.k8s.io"
    ));
    cluster.kubectl("create rolebinding dev -n red --role=dev --user=alice");
    cluster
}

#[test]
fn rbac_limits_reads() {
    let cluster = cluster("get,list,create");
    cluster.kubectl("create configmap c -n red --as=alice");
    assert!(
        cluster
            .kubectl("get configmaps -n red --as=alice -o name")
            .contains("configmap/c")
    );
    let (_, message) = cluster.kubectl_error("get configmaps -n blue --as=alice");
    assert_eq!(
        message,
        "Error from server (Forbidden): configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"blue\"\n"
    );
    assert_eq!(
        cluster.kubectl("auth can-i create configmaps -n red --as=alice"),
        "yes\n"
    );
    assert_eq!(
        cluster
            .kubectl_error("auth can-i delete configmaps -n red --as=alice")
            .1,
        "no\n"
    );
    let list = cluster.kubectl("auth can-i --list -n red --as=alice");
    let k3_command_for = list.lines().find(|line| line.starts_with("configmaps "));
    assert!(
        k3_command_for.is_some_and(|line| line.contains("[get list create]")),
        "{list}"
    );
}

#[test]
fn rejects_privilege_escalation() {
    let cluster = cluster("get,create");
    cluster.kubectl("create role ok -n red --verb=get --resource=configmaps --as=alice");
    let (_, message) =
        cluster.kubectl_error("create role more -n red --verb=delete --resource=secrets --as=alice");
    let why = "user \"alice\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
               {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\"]}";
    assert!(message.contains(why), "{message}");
}

#[test]
fn legacy_watch_paths_reject_writes() {
    let cluster = cluster("watch");
    let body = cluster.file(
        "c.json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#,
    );
    let body = body.to_str().unwrap();
    let path = "/api/v1/watch/namespaces/red/configmaps";
    let (_, message) = cluster.kubectl_error(&format!("create --raw {path} -f {body} --as=alice"));
    assert!(message.contains("MethodNotAllowed"), "{message}");
    cluster.kubectl_error("get configmap c -n red");
}

#[test]
fn approval_needs_permission_for_the_signer() {
    let cluster = TestCluster::start();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&rcgen::KeyPair::generate().unwrap())
        .unwrap();
    let request = serde_json::to_string(&ByteString(request.pem().unwrap().into_bytes())).unwrap();
    let objects = cluster.file(
        "rights.yaml",
        &format!(
            r"
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: zed}}
spec: {{request: {request}, signerName: example.com/people, usages: [client auth]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: requests}}
rules:
- {{apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests, certificatesigningrequests/approval], verbs: [get, update]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: approvers}}
rules:
- {{apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [example.com/*], verbs: [approve]}}
"
        ),
    );
    cluster.kubectl(&format!("apply -f {}", objects.display()));
    cluster.kubectl("create clusterrolebinding requests --clusterrole=requests --user=alice");
    let (_, message) = cluster.kubectl_error("certificate approve zed --as=alice");
    assert!(
        message.contains("user not permitted to approve requests with signerName \"example.com/people\""),
        "{message}"
    );
    cluster.kubectl("create clusterrolebinding approvers --clusterrole=approvers --user=alice");
    cluster.kubectl("certificate approve zed --as=alice");
    assert!(cluster.kubectl("get csr zed").contains("Approved"));
}
