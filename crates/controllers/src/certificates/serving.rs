//! Approves the requests of kubelets for the certificates that they serve with, where nothing can be gained by it: a node
//! asks in its own name, for its own name, and for the addresses in the status of its Node. A node writes that itself, so that
//! names and addresses of the API server, of services and of other nodes are left out ([`ServingNamePolicy`]).
//!
//! Upstream leaves this to people or to programs of their own; here it is a controller with its own account, so that its right
//! to approve ([`roles`]) reaches no other. Requests that it does not approve stay pending for an administrator.

use std::{net::IpAddr, sync::Arc, time::Duration};

use k3_api::kinds::CertificateRequestInfo;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    request::SigningRequest,
    serving_names::ServingNamePolicy,
    subject::{KUBELET_SERVING, check_subject},
};
use crate::{
    context::{ClusterConfig, ControllerContext, Task},
    objects::ServiceCidr,
    resource::{CERTIFICATE_SIGNING_REQUESTS, NODES, SERVICE_CIDRS},
    update::UpdateWithPatch,
};

const MESSAGE: &str =
    "Auto approving kubelet serving certificate: it names its own node, and addresses of that node only.";
/// A Node may report an address after its kubelet requested a certificate for it: requests are retried for this time.
const RETRY_PERIOD: Duration = Duration::from_mins(5);
const RETRY_DELAY: Duration = Duration::from_secs(15);
/// The account of this controller, and the name of its role.
const ACCOUNT: &str = "kubelet-serving-approver";
const ROLE: &str = "k3.io:kubelet-serving-approver";

struct KubeletServingApprover {
    writer: ApiWriter,
    clock: Clock,
    cluster: Arc<ClusterConfig>,
    requests: Store<SigningRequest>,
    service_cidrs: Store<ServiceCidr>,
}

/// The addresses of a node, and nothing else of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Vec<NodeAddress>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let requests = context.informer::<SigningRequest>(&CERTIFICATE_SIGNING_REQUESTS);
    let service_cidrs = context.informer::<ServiceCidr>(&SERVICE_CIDRS);
    let approver = KubeletServingApprover {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        cluster: Arc::clone(&context.cluster),
        requests: requests.store().clone(),
        service_cidrs: service_cidrs.store().clone(),
    };
    let runner = context
        .controller("kubelet-serving-approver")
        .for_(&requests)
        // Needed before the first decision; their events do not trigger one.
        .watches(&service_cidrs, |_| Vec::new())
        .reconciler(approver);
    vec![Box::new(runner)]
}

/// The role that lets this controller approve, and its binding. Upstream's clusters are created without them, so that the process that
/// runs the controller creates them.
pub fn roles() -> [Value; 2] {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let rule = |verbs: &[&str], group: &str, resources: &[&str]| json!({"verbs": verbs, "apiGroups": [group], "resources": resources});
    let certificates = "certificates.k8s.io";
    let mut approve = rule(&["approve"], certificates, &["signers"]);
    approve["resourceNames"] = json!([KUBELET_SERVING]);
    [
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": ROLE}, "rules": [
            rule(&["get", "list", "watch"], certificates, &["certificatesigningrequests"]),
            rule(&["update"], certificates, &["certificatesigningrequests/approval"]),
            approve,
            rule(&["get"], "", &["nodes"]),
        ]}),
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": ROLE},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": ACCOUNT}]}),
    ]
}

/// The node that requests a certificate for itself.
// upstream: pkg/controller/certificates/signer/signer.go isKubeletServing; approval itself is k3's own, upstream leaves it to administrators
fn requesting_node(request: &SigningRequest, subject: &CertificateRequestInfo) -> Option<String> {
    let spec = &request.spec;
    let node = spec.username.strip_prefix("system:node:")?;
    let is_node = !node.is_empty() && spec.groups.iter().any(|group| &**group == "system:nodes");
    let is_own = *spec.username == *subject.common_name;
    let is_signed = matches!(
        check_subject(&spec.signer_name, subject, &spec.usages),
        Some(Ok(()))
    );
    (is_node && is_own && is_signed).then(|| node.to_owned())
}

/// Whether all requested names belong to the node, and are allowed.
fn has_all(node: &Node, policy: &ServingNamePolicy<'_>, subject: &CertificateRequestInfo) -> bool {
    let addresses = &node.status.addresses;
    let is_host = |host: &String| {
        let mut named = addresses.iter().filter(|known| known.address == *host);
        policy.allows_host(host) && named.any(|known| ["Hostname", "InternalDNS"].contains(&&*known.kind))
    };
    let is_address = |wanted: &IpAddr| {
        let mut known = addresses
            .iter()
            .filter_map(|known| known.address.parse::<IpAddr>().ok());
        policy.allows_address(*wanted) && known.any(|known| known == *wanted)
    };
    subject.hosts.iter().all(is_host) && subject.addresses.iter().all(is_address)
}

// --- KubeletServingApprover ---

impl Reconciler for KubeletServingApprover {
    async fn reconcile(&self, key: Request) -> Result<Outcome, Error> {
        let Some(request) = self.requests.get(&key.key) else {
            return Ok(Outcome::Done);
        };
        let is_answered = request.is_issued() || request.is_approved() || request.is_denied();
        if is_answered || &*request.spec.signer_name != KUBELET_SERVING {
            return Ok(Outcome::Done);
        }
        // An unreadable request is not approved here.
        let Ok(read) = k3_api::kinds::parse_certificate_request(&request.spec.request) else {
            return Ok(Outcome::Done);
        };
        let subject = CertificateRequestInfo::from(&read);
        let Some(name) = requesting_node(&request, &subject) else {
            return Ok(Outcome::Done);
        };
        let node = match self.writer.get::<Node>(ObjectRef::new(&NODES, "", &name)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Node::default(),
            other => other?,
        };
        let policy = self.policy(&name);
        if has_all(&node, &policy, &subject) && !self.names_another_node(&name, &subject).await? {
            self.approve(&request).await?;
            return Ok(Outcome::Done);
        }
        let written = request.metadata.creation_timestamp;
        let is_new = written.is_some_and(|written| self.clock.now() < written + RETRY_PERIOD);
        Ok(if is_new {
            Outcome::RequeueAfter(RETRY_DELAY)
        } else {
            Outcome::Done
        })
    }
}

impl KubeletServingApprover {
    /// The policy for a node.
    fn policy<'a>(&'a self, node: &'a str) -> ServingNamePolicy<'a> {
        let server = &self.cluster.server;
        let cidrs = self.service_cidrs.all();
        let added = cidrs.iter().flat_map(|cidr| cidr.spec.cidrs.iter());
        let texts = server.service_networks.iter().map(|text| &**text);
        let service_networks = texts.chain(added.map(|text| &**text));
        ServingNamePolicy {
            server,
            service_networks: service_networks.filter_map(|text| text.parse().ok()).collect(),
            node,
        }
    }

    /// Whether a requested host, which [`has_all`] found valid, is the name of another node.
    async fn names_another_node(&self, name: &str, subject: &CertificateRequestInfo) -> kube::Result<bool> {
        for host in &subject.hosts {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            if host == name {
                continue;
            }
            match self.writer.get::<Value>(ObjectRef::new(&NODES, "", &host)).await {
                Err(error) if has_status_code(&error, 404) => {}
                other => return other.map(|_| true),
            }
        }
        Ok(false)
    }

    async fn approve(&self, request: &SigningRequest) -> kube::Result<()> {
        let mut conditions = json!(request.status.conditions);
        if let Value::Array(conditions) = &mut conditions {
            conditions.push(
                json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": MESSAGE}),
            );
        }
        let meta = &request.metadata;
        let patch = json!({
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {"conditions": conditions},
        });
        let object_ref = ObjectRef::new(&CERTIFICATE_SIGNING_REQUESTS, "", &meta.name);
        self.writer
            .update_with_merge::<Value>(object_ref.subresource("approval"), &patch)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k3_pki::{AlternativeName, KeyPair, Subject, new_request};
    use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

    use super::*;
    use crate::{
        context::ServerIdentity,
        testing::{Scenario, TestCluster},
    };

    /// For the node `n`, which is `n` and 10.0.0.1.
    const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkR6Q0J0Z0lCQURBdk1SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RmpBVUJnTlZCQU1NRFhONQpjM1JsYlRwdWIyUmxPbTR3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVF4VTBUMktCdy9qZE5zCmRySmZnUXNNeVJjMUFVWFNGWk81UU0zUFIvN1ZsbzR2ejM2NG1RemdodVk1YXN4NTkxZVUxampKaFlwKzZMWXAKODF2c3ZqQ0VvQ1V3SXdZSktvWklodmNOQVFrT01SWXdGREFTQmdOVkhSRUVDekFKZ2dGdWh3UUtBQUFCTUFvRwpDQ3FHU000OUJBTUNBMGdBTUVVQ0lRQ202M1ljZkorS2lpblVFVjNOUXRHMDBGcTQyWlRnblo1WG5BQU5NMWJiCjVBSWdMNVplNHI3Zmxlajl6ZjlkVjhicU43dlRkMTNERWo4U010WFVxd2NEYVlRPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

    /// The same, and, behind a length that is not the shortest one, for `kubernetes.default.svc`.
    const HIDDEN: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQktqQ0IwQUlCQURBdk1SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RmpBVUJnTlZCQU1NRFhONQpjM1JsYlRwdWIyUmxPbTR3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVFNWW40RXg4SkM3SWppClhEMEVsMEVMYXV1Ulh6UGQ2M3ZEUFNWK201VTdDaEs5UmxFU3ZIcy9TY2F1VHA5NmJXV3FKVkhQdXNBa3lYY0QKQTc5S1VZSmpvRDh3UFFZSktvWklodmNOQVFrT01UQXdMakFzQmdOVkhSRUVKVEFqZ2dGdWh3UUtBQUFCZ29JQQpGbXQxWW1WeWJtVjBaWE11WkdWbVlYVnNkQzV6ZG1Nd0NnWUlLb1pJemowRUF3SURTUUF3UmdJaEFPQnYxSHZECjFWUllUZjVIVHFqSFNUN3hSL01tSVZibiszVE9hOUxObGxBWkFpRUFqN0VSdVVzaEx3Vkw2RUxVQ3UrTDR6eWQKdjhlYXgya0ZMdVpVcytKQTRQTT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

    /// A node asks, and learns of its address later; another user asks for the same.
    const STORY: Scenario = Scenario {
        make,
        setup: |cluster| {
            for (name, user, request) in [
                ("own", "system:node:n", REQUEST),
                ("other", "system:node:m", REQUEST),
                ("hidden", "system:node:n", HIDDEN),
            ] {
                cluster.put(
                    &CERTIFICATE_SIGNING_REQUESTS,
                    json!({"metadata": {"name": name}, "spec": {"request": request, "signerName": KUBELET_SERVING,
                        "usages": ["digital signature", "server auth"], "username": user, "groups": ["system:nodes"]}}),
                );
            }
            cluster.put(&NODES, json!({"metadata": {"name": "n"}}));
        },
        play: |cluster| {
            if cluster.now().as_second() > 1_767_225_630 + 20 {
                let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n"}]);
                cluster.put(
                    &NODES,
                    json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}}),
                );
            }
        },
        end: conditions,
    };

    /// A node reports, as its own addresses, those of services, of the server and of another node, and asks for one of them
    /// at a time. The node in the server's process asks for what it has.
    const EVIL: Scenario = Scenario {
        make: |context| {
            let server = ServerIdentity {
                hosts: vec!["api.example.com".to_owned(), "inside".to_owned()],
                host_name: Some("inside".to_owned()),
                foreign_addresses: vec![[203, 0, 113, 9].into()],
                advertise: Some([192, 0, 2, 7].into()),
                service_networks: vec!["10.96.0.0/12".to_owned()],
                node: Some("inside".to_owned()),
            };
            make(&ControllerContext {
                cluster: Arc::new(ClusterConfig {
                    server,
                    ..ClusterConfig::default()
                }),
                ..context.clone()
            })
        },
        setup: |cluster| {
            cluster.put(
                &SERVICE_CIDRS,
                json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}}),
            );
            let wanted = [
                "127.0.0.1",
                "10.96.0.1",
                "10.200.0.1",
                "203.0.113.9",
                "api.example.com",
                "inside",
                "other",
                "*.default",
                "kubernetes.default.svc",
            ];
            put_node(cluster, "other", &["other", "10.0.0.2"]);
            put_node(cluster, "evil", &[&["evil", "10.0.0.3"], &wanted[..]].concat());
            put_node(cluster, "inside", &["inside", "192.0.2.7"]);
            put_node(cluster, "beside", &["beside", "192.0.2.7"]);
            put_request(cluster, "own", "evil", &["evil", "10.0.0.3"]);
            for (number, name) in wanted.iter().enumerate() {
                put_request(cluster, &format!("evil-{number}"), "evil", &["evil", name]);
            }
            put_request(cluster, "inside", "inside", &["inside", "192.0.2.7"]);
            put_request(cluster, "beside", "beside", &["beside", "192.0.2.7"]);
        },
        play: |_| {},
        end: conditions,
    };

    fn put_node(cluster: &TestCluster, name: &str, names: &[&str]) {
        let address = |name: &&str| {
            let kind = match name.parse::<IpAddr>() {
                Ok(_) => "InternalIP",
                Err(_) => "Hostname",
            };
            json!({"type": kind, "address": name})
        };
        let addresses: Vec<_> = names.iter().map(address).collect();
        cluster.put(
            &NODES,
            json!({"metadata": {"name": name}, "status": {"addresses": addresses}}),
        );
    }

    fn put_request(cluster: &TestCluster, name: &str, node: &str, names: &[&str]) {
        let user = format!("system:node:{node}");
        let subject = Subject::new(&["system:nodes"], &user);
        let names: Vec<_> = names
            .iter()
            .map(|name| AlternativeName::from_host(name))
            .collect();
        let request = new_request(&subject, &names, &KeyPair::generate().unwrap()).unwrap();
        cluster.put(
            &CERTIFICATE_SIGNING_REQUESTS,
            json!({"metadata": {"name": name}, "spec": {"request": k3_api::base64::encode(request.as_bytes()),
                "signerName": KUBELET_SERVING, "usages": ["digital signature", "server auth"], "username": user,
                "groups": ["system:nodes"]}}),
        );
    }

    /// The conditions of each request, after a minute.
    fn conditions(cluster: &TestCluster) -> Option<Value> {
        let reported = |request: CertificateSigningRequest| {
            let conditions = request
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let reasons: Vec<_> = conditions
                .into_iter()
                .map(|reported| (reported.type_, reported.reason))
                .collect();
            json!([request.metadata.name, reasons])
        };
        let reported: Vec<_> = cluster
            .api
            .list::<CertificateSigningRequest>()
            .into_iter()
            .map(reported)
            .collect();
        let is_late = cluster.now().as_second() > 1_767_225_630 + 60;
        is_late.then(|| reported.into())
    }

    #[tokio::test(start_paused = true)]
    async fn rejects_names_of_server_services_and_other_nodes() {
        let (end, _) = EVIL.run().await;
        let all = end.as_array().unwrap();
        let approved: Vec<_> = all
            .iter()
            .filter(|request| request[1] != json!([]))
            .map(|request| &request[0])
            .collect();
        assert_eq!(all.len(), 12);
        assert_eq!(approved, ["beside", "inside", "own"]);
    }

    #[tokio::test(start_paused = true)]
    async fn approves_own_addresses_only() {
        let (end, _) = STORY.run().await;
        assert_eq!(
            end,
            json!([
                ["hidden", []],
                ["other", []],
                ["own", [["Approved", "AutoApproved"]]]
            ])
        );
        STORY.survives_crashes().await;
    }

    fn subject() -> CertificateRequestInfo {
        CertificateRequestInfo {
            common_name: "system:node:n".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            names: vec![
                k3_api::kinds::SubjectAltNameKind::Host,
                k3_api::kinds::SubjectAltNameKind::Address,
            ],
            hosts: vec!["n".to_owned()],
            addresses: vec![[10, 0, 0, 1].into()],
            uids: Vec::new(),
        }
    }

    fn request(change: &Value) -> SigningRequest {
        let mut spec = json!({"signerName": KUBELET_SERVING, "usages": ["digital signature", "server auth"],
            "username": "system:node:n", "groups": ["system:nodes", "system:authenticated"]});
        for (name, value) in change.as_object().unwrap() {
            spec[name] = value.clone();
        }
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn ignores_requests_for_other_nodes() {
        let named = |change: Value| requesting_node(&request(&change), &subject());
        assert_eq!(named(json!({})).as_deref(), Some("n"));
        for change in [
            json!({"username": "system:node:m"}),
            json!({"username": "jane"}),
            json!({"groups": ["system:authenticated"]}),
            json!({"usages": ["digital signature", "client auth"]}),
            json!({"usages": ["digital signature", "server auth", "client auth"]}),
            json!({"signerName": "kubernetes.io/kube-apiserver-client-kubelet"}),
        ] {
            assert_eq!(named(change.clone()), None, "{change}");
        }
        for change in [
            (|subject: &mut CertificateRequestInfo| subject.uids.push("1".to_owned()))
                as fn(&mut CertificateRequestInfo),
            |subject| subject.organizations.push("system:masters".to_owned()),
            |subject| subject.names.clear(),
            |subject| subject.names.push(k3_api::kinds::SubjectAltNameKind::Resource),
        ] {
            let mut subject = subject();
            change(&mut subject);
            assert_eq!(
                requesting_node(&request(&json!({})), &subject),
                None,
                "{subject:?}"
            );
        }
    }

    #[test]
    fn requires_all_names_to_belong_to_the_node() {
        let node = |addresses: Value| -> Node {
            serde_json::from_value(json!({"status": {"addresses": addresses}})).unwrap()
        };
        let host = json!({"type": "Hostname", "address": "n"});
        let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let other = json!({"type": "InternalIP", "address": "10.0.0.2"});
        let cluster = ClusterConfig::default();
        let policy = ServingNamePolicy {
            server: &cluster.server,
            service_networks: vec!["10.96.0.0/12".parse().unwrap()],
            node: "n",
        };
        assert!(has_all(&node(json!([address, host])), &policy, &subject()));
        assert!(!has_all(&node(json!([other, host])), &policy, &subject()));
        assert!(!has_all(&node(json!([address])), &policy, &subject()));
        assert!(!has_all(&node(json!([])), &policy, &subject()));
        for (reserved, is_allowed) in [
            ("kubernetes.default.svc", false),
            ("kubernetes", false),
            ("Kubernetes.default.svc.cluster.local", false),
            ("hook.tests.svc", false),
            ("localhost", false),
            ("*.default", false),
            ("worker.example.com", true),
        ] {
            let named = CertificateRequestInfo {
                hosts: vec![reserved.to_owned()],
                ..subject()
            };
            let host = json!({"type": "Hostname", "address": reserved});
            assert_eq!(
                has_all(&node(json!([address, host])), &policy, &named),
                is_allowed,
                "{reserved}"
            );
        }
        let external = json!({"type": "ExternalDNS", "address": "n"});
        assert!(!has_all(&node(json!([address, external])), &policy, &subject()));
        for reserved in ["127.0.0.1", "10.96.0.1", "169.254.0.1", "0.0.0.0", "224.0.0.1"] {
            let named = CertificateRequestInfo {
                addresses: vec![reserved.parse().unwrap()],
                ..subject()
            };
            let address = json!({"type": "InternalIP", "address": reserved});
            assert!(
                !has_all(&node(json!([address, host])), &policy, &named),
                "{reserved}"
            );
        }
    }
}
