//! Namespaces, priority classes and single objects of a new cluster.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::table::{entries, malformed, number};

const TABLE: &str = include_str!("cluster.table");

/// The namespaces.
// upstream: pkg/controlplane/controller/systemnamespaces/system_namespaces_controller.go createNamespaceIfNeeded
pub fn namespaces() -> impl Iterator<Item = Value> {
    entries(TABLE, "namespace").map(|entry| {
        let name = entry.tokens.first();
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        })
    })
}

/// The priority classes.
pub fn priority_classes() -> impl Iterator<Item = Value> {
    entries(TABLE, "priorityclass").map(|entry| {
        let [name, value, ref description @ ..] = entry.tokens[..] else {
            malformed(&entry.tokens)
        };
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": number(value),
            "description": description.join(" "),
            "preemptionPolicy": "PreemptLowerPriority",
        })
    })
}

/// The service under which the server is reached from inside: the first address of the services' range, and the port
/// the server listens on.
// upstream: pkg/controlplane/controller/kubernetesservice/controller.go CreateOrUpdateMasterServiceIfNeeded
pub fn kubernetes_service(address: IpAddr, port: u16) -> Value {
    let ip_family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": address,
            "clusterIPs": [address],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": [ip_family],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    })
}

/// Since which day (`2006-01-02`) the use of old tokens is recorded.
// upstream: pkg/controlplane/controller/legacytokentracking/controller.go syncConfigMap
pub fn token_tracking(since: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "kube-apiserver-legacy-service-account-token-tracking",
            "namespace": "kube-system",
        },
        "data": {"since": since},
    })
}
