//! Who may do what, as users of kubectl meet it.

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
fn one_sees_only_what_one_may() {
    let cluster = cluster("get,list,create");
    cluster.kubectl("create configmap c -n red --as=alice");
    assert!(
        cluster
            .kubectl("get configmaps -n red --as=alice -o name")
            .contains("configmap/c")
    );
    let (_, said) = cluster.refused("get configmaps -n blue --as=alice");
    assert_eq!(
        said,
        "Error from server (Forbidden): configmaps is forbidden: User \"alice\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"blue\"\n"
    );
    assert_eq!(
        cluster.kubectl("auth can-i create configmaps -n red --as=alice"),
        "yes\n"
    );
    assert_eq!(
        cluster
            .refused("auth can-i delete configmaps -n red --as=alice")
            .1,
        "no\n"
    );
    let list = cluster.kubectl("auth can-i --list -n red --as=alice");
    let own = list.lines().find(|line| line.starts_with("configmaps "));
    assert!(
        own.is_some_and(|line| line.contains("[get list create]")),
        "{list}"
    );
}

#[test]
fn nobody_gives_away_what_they_do_not_have() {
    let cluster = cluster("get,create");
    cluster.kubectl("create role ok -n red --verb=get --resource=configmaps --as=alice");
    let (_, said) = cluster.refused("create role more -n red --verb=delete --resource=secrets --as=alice");
    let why = "user \"alice\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
               {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\"]}";
    assert!(said.contains(why), "{said}");
}

#[test]
fn who_may_only_watch_does_not_create_at_the_old_path_of_watches() {
    let cluster = cluster("watch");
    let body = cluster.file(
        "c.json",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#,
    );
    let body = body.to_str().unwrap();
    let path = "/api/v1/watch/namespaces/red/configmaps";
    let (_, said) = cluster.refused(&format!("create --raw {path} -f {body} --as=alice"));
    assert!(said.contains("MethodNotAllowed"), "{said}");
    cluster.refused("get configmap c -n red");
}

#[test]
fn a_certificate_is_approved_by_who_may_approve_for_its_signer() {
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
    let (_, said) = cluster.refused("certificate approve zed --as=alice");
    assert!(
        said.contains("user not permitted to approve requests with signerName \"example.com/people\""),
        "{said}"
    );
    cluster.kubectl("create clusterrolebinding approvers --clusterrole=approvers --user=alice");
    cluster.kubectl("certificate approve zed --as=alice");
    assert!(cluster.kubectl("get csr zed").contains("Approved"));
}
