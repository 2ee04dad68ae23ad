//! The objects that the load is made of: of the size and with the kinds of fields that real ones have.

use serde_json::{Value, json};

/// The label all of them carry, as a query.
pub(crate) const MINE: &str = "labelSelector=app%3Dk3-bench";
/// A label that one in a hundred carries, as a query.
pub(crate) const HUNDREDTH: &str = "labelSelector=shard%3Ds7";
/// The node that the pods of the load are bound to. No kubelet runs there.
pub(crate) const PARKED_NODE: &str = "k3-bench";
/// How many shards there are.
pub(crate) const SHARDS: usize = 100;
/// The annotation that updates change.
pub(crate) const ROUND: &str = "k3-bench/round";

const IMAGE: &str = "registry.example.com/shop/cart:v4.2.1";
/// When everything happened, in what a node reports.
const THEN: &str = "2026-01-01T00:00:00Z";

/// A `ConfigMap` of 1 KiB.
pub(crate) fn config_map(name: &str, index: usize, round: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(name, index, round),
        "data": {
            "settings.toml": letters(index, 520),
            "banner": letters(index + 1, 220),
            "round": round.to_string(),
        },
    })
}

/// A pod of 2.6 KiB, 6 KiB once it is stored, that is bound to a node, so that no scheduler looks at it.
pub(crate) fn pod(name: &str, index: usize) -> Value {
    let mut spec = pod_spec(index);
    spec["nodeName"] = json!(PARKED_NODE);
    spec["automountServiceAccountToken"] = json!(false);
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    let mut metadata = metadata(name, index, 0);
    metadata["labels"]["tier"] = json!("backend");
    metadata["annotations"]["example.com/scrape"] = json!("true");
    metadata["annotations"]["example.com/checksum"] = json!(letters(index, 64));
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
    })
}

/// What a node reports of a pod that runs, as a merge patch.
pub(crate) fn running(index: usize) -> Value {
    let address = format!(
        "10.{}.{}.{}",
        index / 62_500 % 250,
        index / 250 % 250,
        index % 250 + 1
    );
    let conditions: Vec<_> = [
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
    ]
    .map(|condition| json!({"type": condition, "status": "True", "lastProbeTime": null, "lastTransitionTime": THEN}))
    .into();
    let containers: Vec<_> = ["cart", "proxy"]
        .map(|name| {
            json!({
                "name": name,
                "image": IMAGE,
                "imageID": format!("registry.example.com/shop/cart@sha256:{:064}", 1),
                "containerID": format!("containerd://{index:064x}"),
                "ready": true,
                "started": true,
                "restartCount": 0,
                "state": {"running": {"startedAt": THEN}},
                "lastState": {},
            })
        })
        .into();
    json!({"status": {
        "phase": "Running",
        "startTime": THEN,
        "hostIP": "192.0.2.1",
        "hostIPs": [{"ip": "192.0.2.1"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "conditions": conditions,
        "containerStatuses": containers,
    }})
}

/// A deployment as one applies it; no controller makes anything of it.
pub(crate) fn deployment(name: &str, index: usize, round: usize) -> Value {
    let labels = json!({"instance": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(name, index, round),
        "spec": {
            "replicas": 0,
            "paused": true,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {ROUND: round.to_string()}},
                "spec": pod_spec(index),
            },
        },
    })
}

/// A deployment that runs so many small pods, which end at once on SIGTERM.
pub(crate) fn running_deployment(name: &str, replicas: usize) -> Value {
    let labels = json!({"app": name});
    let resources = json!({"requests": {"cpu": "10m", "memory": "16Mi"}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "example.com/app:1", "resources": resources}],
                },
            },
        },
    })
}

/// A node that is ready, as its kubelet announces it.
pub(crate) fn node(name: &str) -> Value {
    let capacity = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    })
}

fn metadata(name: &str, index: usize, round: usize) -> Value {
    json!({
        "name": name,
        "labels": {"app": "k3-bench", "shard": format!("s{}", index % SHARDS)},
        "annotations": {ROUND: round.to_string()},
    })
}

fn pod_spec(index: usize) -> Value {
    json!({
        "serviceAccountName": "default",
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": true,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000},
        "containers": [container("cart", index), container("proxy", index)],
        "volumes": [
            {"name": "settings", "configMap": {"name": "cart-settings", "defaultMode": 420}},
            {"name": "scratch", "emptyDir": {}},
        ],
    })
}

fn container(name: &str, index: usize) -> Value {
    json!({
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["--address=:8080", "--verbosity=2", "--settings=/etc/cart/settings.toml"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [
            {"name": "NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            {"name": "ZONE", "value": "north-1"},
            {"name": "INDEX", "value": index.to_string()},
        ],
        "resources": {
            "requests": {"cpu": "20m", "memory": "32Mi"},
            "limits": {"cpu": "2", "memory": "512Mi"},
        },
        "livenessProbe": {
            "httpGet": {"path": "/livez", "port": 8080, "scheme": "HTTP"},
            "initialDelaySeconds": 5,
            "timeoutSeconds": 2,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "volumeMounts": [
            {"name": "settings", "mountPath": "/etc/cart", "readOnly": true},
            {"name": "scratch", "mountPath": "/var/tmp"},
        ],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}

/// So many letters, others for each seed.
fn letters(seed: usize, count: usize) -> String {
    let alphabet = ('a'..='z').cycle().skip(seed % 26);
    alphabet.step_by(seed % 5 * 2 + 1).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_sizes_that_upstream_was_measured_with() {
        let bytes = |object: Value| object.to_string().len();
        let config_map = bytes(config_map("cm-000001", 1, 0));
        assert!((920..1050).contains(&config_map), "{config_map}");
        let pod = bytes(pod("pod-000001", 1));
        assert!((2500..2900).contains(&pod), "{pod}");
    }

    #[test]
    fn one_in_a_hundred_is_of_a_shard() {
        let of_shard = |index: &usize| config_map("a", *index, 0)["metadata"]["labels"]["shard"] == "s7";
        assert_eq!((0..5000).filter(of_shard).count(), 50);
    }
}
