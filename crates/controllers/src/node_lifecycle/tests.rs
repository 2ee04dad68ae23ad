//! What becomes of nodes that do not do well.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod};
use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{LEASE_NAMESPACE, make};
use crate::{
    resource::{LEASES, NODES, PODS},
    testing::{Scenario, TestCluster},
};

const LONG: Duration = Duration::from_mins(10);
/// Marks a recovered node.
const BACK: &str = "test/back";

fn put_node(cluster: &TestCluster, name: &str, labels: &Value) {
    let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
    cluster.put(
        &NODES,
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"conditions": [condition("MemoryPressure", "False"), condition("Ready", "True")]},
        }),
    );
}

fn put_pod(cluster: &TestCluster, name: &str, node: &str) {
    cluster.put(
        &PODS,
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
}

/// Nodes show that they live.
fn renew_leases(cluster: &TestCluster, nodes: &[&str]) {
    for name in nodes {
        let time = cluster.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        cluster.put(
            &LEASES,
            json!({"metadata": {"name": name, "namespace": LEASE_NAMESPACE}, "spec": {"renewTime": time}}),
        );
    }
}

/// Lets time pass in which some nodes live.
async fn advance_with_live_nodes(cluster: &TestCluster, nodes: &[&str], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        renew_leases(cluster, nodes);
        sleep(Duration::from_secs(1)).await;
    }
}

/// Waits for something while some nodes live.
async fn until(cluster: &TestCluster, nodes: &[&str], mut wanted: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !wanted() {
        assert!(
            Instant::now() < end,
            "waited in vain: {:?}",
            taints(cluster, nodes[0])
        );
        advance_with_live_nodes(cluster, nodes, Duration::from_secs(1)).await;
    }
}

/// Sets a condition of a node.
fn set_condition(cluster: &TestCluster, name: &str, kind: &str, status: &str) {
    cluster.api.edit::<Node>("", name, |node| {
        let conditions = node.status.as_mut().unwrap().conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != kind);
        let now = cluster.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition =
            json!({"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
        conditions.push(serde_json::from_value(condition).unwrap());
    });
}

/// Keys and effects of the taints of a node, without what all have in common.
fn taints(cluster: &TestCluster, name: &str) -> Vec<String> {
    let node = cluster.api.get::<Node>("", name).unwrap();
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let mut taints: Vec<_> = taints
        .into_iter()
        .map(|taint| {
            let key = taint.key.trim_start_matches("node.kubernetes.io/").to_owned();
            format!("{key}:{}", taint.effect)
        })
        .collect();
    taints.sort();
    taints
}

fn condition(cluster: &TestCluster, name: &str, kind: &str) -> NodeCondition {
    let node = cluster.api.get::<Node>("", name).unwrap();
    let conditions = node
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let mut conditions = conditions.into_iter();
    conditions
        .find(|condition| condition.type_ == kind)
        .unwrap_or_default()
}

fn is_pod_ready(cluster: &TestCluster, name: &str) -> bool {
    let pod = cluster.api.get::<Pod>("shop", name).unwrap();
    let conditions = pod
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn event_messages(cluster: &TestCluster, reason: &str) -> Vec<String> {
    let events = cluster.api.list::<Event>().into_iter();
    let reported = events.filter(|event| event.reason.as_deref() == Some(reason));
    reported.filter_map(|event| event.message).collect()
}

const UNREACHABLE: [&str; 2] = ["unreachable:NoExecute", "unreachable:NoSchedule"];

#[tokio::test(start_paused = true)]
async fn marks_a_silent_node_unreachable_and_recovers() {
    let cluster = TestCluster::new();
    let all = ["a", "b", "c"];
    for name in all {
        put_node(&cluster, name, &json!({}));
    }
    put_pod(&cluster, "web", "c");
    put_pod(&cluster, "other", "a");
    let _running = cluster.start("k3", make);
    advance_with_live_nodes(&cluster, &all, Duration::from_mins(2)).await;
    assert_eq!(event_messages(&cluster, "RegisteredNode").len(), 3);
    let writes = cluster.api.writes();
    assert!(writes.iter().all(|write| write.is_for("events")), "{writes:?}");
    let start = Instant::now();
    until(&cluster, &["a", "b"], || taints(&cluster, "c") == UNREACHABLE).await;
    let waited = start.elapsed().as_secs();
    assert!((50..=70).contains(&waited), "{waited}");
    let ready = condition(&cluster, "c", "Ready");
    let text = (&*ready.status, ready.reason.as_deref(), ready.message.as_deref());
    let silent = "Kubelet stopped posting node status.";
    assert_eq!(text, ("Unknown", Some("NodeStatusUnknown"), Some(silent)));
    let disk = condition(&cluster, "c", "DiskPressure");
    assert_eq!(
        (&*disk.status, disk.reason.as_deref()),
        ("Unknown", Some("NodeStatusNeverUpdated"))
    );
    until(&cluster, &["a", "b"], || !is_pod_ready(&cluster, "web")).await;
    assert!(is_pod_ready(&cluster, "other"));
    let about_nodes = event_messages(&cluster, "NodeNotReady");
    assert!(
        about_nodes.contains(&"Node c status is now: NodeNotReady".to_owned()),
        "{about_nodes:?}"
    );
    set_condition(&cluster, "c", "Ready", "True");
    until(&cluster, &all, || taints(&cluster, "c").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn taints_nodes_by_condition() {
    let cluster = TestCluster::new();
    let all = ["a", "b", "c"];
    for name in all {
        put_node(&cluster, name, &json!({}));
    }
    cluster.api.edit::<Node>("", "c", |node| {
        let foreign = json!([{"key": "gpu", "effect": "NoSchedule"}]);
        node.spec.get_or_insert_default().taints = serde_json::from_value(foreign).unwrap();
    });
    let _running = cluster.start("k3", make);
    advance_with_live_nodes(&cluster, &all, Duration::from_secs(30)).await;
    for (kind, status, expected) in [
        (
            "MemoryPressure",
            "True",
            vec!["gpu:NoSchedule", "memory-pressure:NoSchedule"],
        ),
        ("MemoryPressure", "False", vec!["gpu:NoSchedule"]),
        (
            "Ready",
            "False",
            vec!["gpu:NoSchedule", "not-ready:NoExecute", "not-ready:NoSchedule"],
        ),
        ("Ready", "True", vec!["gpu:NoSchedule"]),
    ] {
        set_condition(&cluster, "c", kind, status);
        until(&cluster, &all, || taints(&cluster, "c") == expected).await;
    }
    let cordon = |is_cordoned| {
        cluster.api.edit::<Node>("", "c", |node| {
            node.spec.get_or_insert_default().unschedulable = Some(is_cordoned);
        });
    };
    cordon(true);
    until(&cluster, &all, || {
        taints(&cluster, "c") == ["gpu:NoSchedule", "unschedulable:NoSchedule"]
    })
    .await;
    cordon(false);
    until(&cluster, &all, || taints(&cluster, "c") == ["gpu:NoSchedule"]).await;
    cluster.api.clear_requests();
    advance_with_live_nodes(&cluster, &all, Duration::from_mins(10)).await;
    assert!(cluster.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn does_not_evict_in_master_disruption() {
    let cluster = TestCluster::new();
    for name in ["a", "b"] {
        put_node(&cluster, name, &json!({}));
    }
    let _running = cluster.start("k3", make);
    advance_with_live_nodes(&cluster, &["a", "b"], Duration::from_secs(30)).await;
    sleep(Duration::from_mins(10)).await;
    for name in ["a", "b"] {
        assert_eq!(taints(&cluster, name), ["unreachable:NoSchedule"]);
    }
    // One comes back: so it was not the network.
    set_condition(&cluster, "a", "Ready", "True");
    until(&cluster, &["a"], || {
        taints(&cluster, "a").is_empty() && taints(&cluster, "b") == UNREACHABLE
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn marks_new_pods_on_unready_nodes() {
    let cluster = TestCluster::new();
    for name in ["a", "b", "c"] {
        put_node(&cluster, name, &json!({}));
    }
    let _running = cluster.start("k3", make);
    until(&cluster, &["a", "b"], || taints(&cluster, "c") == UNREACHABLE).await;
    put_pod(&cluster, "late", "c");
    until(&cluster, &["a", "b"], || !is_pod_ready(&cluster, "late")).await;
}

#[tokio::test(start_paused = true)]
async fn records_node_removal_and_syncs_labels() {
    let cluster = TestCluster::new();
    put_node(
        &cluster,
        "a",
        &json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}),
    );
    let _running = cluster.start("k3", make);
    let label = |name: &str| {
        let node = cluster.api.get::<Node>("", "a").unwrap();
        node.metadata.labels.unwrap_or_default().get(name).cloned()
    };
    until(&cluster, &["a"], || {
        let labels = ["beta.kubernetes.io/os", "beta.kubernetes.io/arch"].map(label);
        labels == [Some("linux".to_owned()), Some("arm64".to_owned())]
    })
    .await;
    cluster.api.remove::<Node>("", "a");
    let look = || {
        let reported = event_messages(&cluster, "RemovingNode");
        async move { reported == ["Node a event: Removing Node a from Controller"] }
    };
    eventually_within(LONG, look).await;
}

/// A node stops posting status, and recovers when its pods are not ready and it has its taints.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        for name in ["a", "b", "c"] {
            put_node(cluster, name, &json!({}));
        }
        put_pod(cluster, "web", "c");
        put_pod(cluster, "shop", "c");
    },
    play: |cluster| {
        renew_leases(cluster, &["a", "b"]);
        let node = cluster.api.get::<Node>("", "c").unwrap();
        let is_back = node
            .metadata
            .annotations
            .is_some_and(|annotations| annotations.contains_key(BACK));
        if is_back {
            renew_leases(cluster, &["c"]);
        } else if taints(cluster, "c") == UNREACHABLE
            && !is_pod_ready(cluster, "web")
            && !is_pod_ready(cluster, "shop")
        {
            for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
                set_condition(cluster, "c", kind, if kind == "Ready" { "True" } else { "False" });
            }
            cluster.api.edit::<Node>("", "c", |node| {
                let annotations = node.metadata.annotations.get_or_insert_default();
                annotations.insert(BACK.to_owned(), String::new());
            });
        }
    },
    end: |cluster| {
        let node = cluster.api.get::<Node>("", "c")?;
        node.metadata.annotations?.get(BACK)?;
        let all: Vec<_> = ["a", "b", "c"].iter().map(|name| taints(cluster, name)).collect();
        let ready = condition(cluster, "c", "Ready").status;
        all.iter()
            .all(Vec::is_empty)
            .then(|| json!({"taints": all, "ready": ready}))
    },
};

#[tokio::test(start_paused = true)]
async fn marks_nodes_unreachable_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
