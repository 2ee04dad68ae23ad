//! What becomes of nodes that do not do well.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, NodeCondition, Pod};
use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{LEASE_NAMESPACE, make};
use crate::{
    resource::{LEASES, NODES, PODS},
    testing::{Stage, Story},
};

const LONG: Duration = Duration::from_mins(10);
/// What says that a node has come back.
const BACK: &str = "test/back";

fn put_node(stage: &Stage, name: &str, labels: &Value) {
    let now = stage.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
    stage.put(
        &NODES,
        json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"conditions": [condition("MemoryPressure", "False"), condition("Ready", "True")]},
        }),
    );
}

fn put_pod(stage: &Stage, name: &str, node: &str) {
    stage.put(
        &PODS,
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
}

/// Nodes show that they live.
fn beat(stage: &Stage, nodes: &[&str]) {
    for name in nodes {
        let time = stage.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        stage.put(
            &LEASES,
            json!({"metadata": {"name": name, "namespace": LEASE_NAMESPACE}, "spec": {"renewTime": time}}),
        );
    }
}

/// Lets time pass in which some nodes live.
async fn live(stage: &Stage, nodes: &[&str], time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        beat(stage, nodes);
        sleep(Duration::from_secs(1)).await;
    }
}

/// Waits for something while some nodes live.
async fn until(stage: &Stage, nodes: &[&str], mut wanted: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !wanted() {
        assert!(
            Instant::now() < end,
            "waited in vain: {:?}",
            taints(stage, nodes[0])
        );
        live(stage, nodes, Duration::from_secs(1)).await;
    }
}

/// What a node says, as one says it to it.
fn say(stage: &Stage, name: &str, kind: &str, status: &str) {
    stage.api.edit::<Node>("", name, |node| {
        let conditions = node.status.as_mut().unwrap().conditions.get_or_insert_default();
        conditions.retain(|condition| condition.type_ != kind);
        let now = stage.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition =
            json!({"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now});
        conditions.push(serde_json::from_value(condition).unwrap());
    });
}

/// Keys and effects of the taints of a node, without what all have in common.
fn taints(stage: &Stage, name: &str) -> Vec<String> {
    let node = stage.api.get::<Node>("", name).unwrap();
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

fn condition(stage: &Stage, name: &str, kind: &str) -> NodeCondition {
    let node = stage.api.get::<Node>("", name).unwrap();
    let conditions = node
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let mut conditions = conditions.into_iter();
    conditions
        .find(|condition| condition.type_ == kind)
        .unwrap_or_default()
}

fn is_pod_ready(stage: &Stage, name: &str) -> bool {
    let pod = stage.api.get::<Pod>("shop", name).unwrap();
    let conditions = pod
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn told(stage: &Stage, reason: &str) -> Vec<String> {
    let events = stage.api.list::<Event>().into_iter();
    let told = events.filter(|event| event.reason.as_deref() == Some(reason));
    told.filter_map(|event| event.message).collect()
}

const UNREACHABLE: [&str; 2] = ["unreachable:NoExecute", "unreachable:NoSchedule"];

#[tokio::test(start_paused = true)]
async fn a_node_that_falls_silent_is_declared_unreachable_and_comes_back() {
    let stage = Stage::new();
    let all = ["a", "b", "c"];
    for name in all {
        put_node(&stage, name, &json!({}));
    }
    put_pod(&stage, "web", "c");
    put_pod(&stage, "other", "a");
    let _running = stage.start("k3", make);
    live(&stage, &all, Duration::from_mins(2)).await;
    assert_eq!(told(&stage, "RegisteredNode").len(), 3);
    let writes = stage.api.writes();
    assert!(writes.iter().all(|write| write.is_for("events")), "{writes:?}");
    let start = Instant::now();
    until(&stage, &["a", "b"], || taints(&stage, "c") == UNREACHABLE).await;
    let waited = start.elapsed().as_secs();
    assert!((50..=70).contains(&waited), "{waited}");
    let ready = condition(&stage, "c", "Ready");
    let words = (&*ready.status, ready.reason.as_deref(), ready.message.as_deref());
    let silent = "Kubelet stopped posting node status.";
    assert_eq!(words, ("Unknown", Some("NodeStatusUnknown"), Some(silent)));
    let disk = condition(&stage, "c", "DiskPressure");
    assert_eq!(
        (&*disk.status, disk.reason.as_deref()),
        ("Unknown", Some("NodeStatusNeverUpdated"))
    );
    until(&stage, &["a", "b"], || !is_pod_ready(&stage, "web")).await;
    assert!(is_pod_ready(&stage, "other"));
    let about_nodes = told(&stage, "NodeNotReady");
    assert!(
        about_nodes.contains(&"Node c status is now: NodeNotReady".to_owned()),
        "{about_nodes:?}"
    );
    say(&stage, "c", "Ready", "True");
    until(&stage, &all, || taints(&stage, "c").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_node_says_of_itself_becomes_taints() {
    let stage = Stage::new();
    let all = ["a", "b", "c"];
    for name in all {
        put_node(&stage, name, &json!({}));
    }
    stage.api.edit::<Node>("", "c", |node| {
        let foreign = json!([{"key": "gpu", "effect": "NoSchedule"}]);
        node.spec.get_or_insert_default().taints = serde_json::from_value(foreign).unwrap();
    });
    let _running = stage.start("k3", make);
    live(&stage, &all, Duration::from_secs(30)).await;
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
        say(&stage, "c", kind, status);
        until(&stage, &all, || taints(&stage, "c") == expected).await;
    }
    let cordon = |is_cordoned| {
        stage.api.edit::<Node>("", "c", |node| {
            node.spec.get_or_insert_default().unschedulable = Some(is_cordoned);
        });
    };
    cordon(true);
    until(&stage, &all, || {
        taints(&stage, "c") == ["gpu:NoSchedule", "unschedulable:NoSchedule"]
    })
    .await;
    cordon(false);
    until(&stage, &all, || taints(&stage, "c") == ["gpu:NoSchedule"]).await;
    stage.api.clear_requests();
    live(&stage, &all, Duration::from_mins(10)).await;
    assert!(stage.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_driven_away_while_all_nodes_are_down() {
    let stage = Stage::new();
    for name in ["a", "b"] {
        put_node(&stage, name, &json!({}));
    }
    let _running = stage.start("k3", make);
    live(&stage, &["a", "b"], Duration::from_secs(30)).await;
    sleep(Duration::from_mins(10)).await;
    for name in ["a", "b"] {
        assert_eq!(taints(&stage, name), ["unreachable:NoSchedule"]);
    }
    // One comes back: so it was not the network.
    say(&stage, "a", "Ready", "True");
    until(&stage, &["a"], || {
        taints(&stage, "a").is_empty() && taints(&stage, "b") == UNREACHABLE
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_to_a_node_that_is_down_are_not_ready() {
    let stage = Stage::new();
    for name in ["a", "b", "c"] {
        put_node(&stage, name, &json!({}));
    }
    let _running = stage.start("k3", make);
    until(&stage, &["a", "b"], || taints(&stage, "c") == UNREACHABLE).await;
    put_pod(&stage, "late", "c");
    until(&stage, &["a", "b"], || !is_pod_ready(&stage, "late")).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_go_are_told_of_and_old_labels_follow_new_ones() {
    let stage = Stage::new();
    put_node(
        &stage,
        "a",
        &json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}),
    );
    let _running = stage.start("k3", make);
    let label = |name: &str| {
        let node = stage.api.get::<Node>("", "a").unwrap();
        node.metadata.labels.unwrap_or_default().get(name).cloned()
    };
    until(&stage, &["a"], || {
        let labels = ["beta.kubernetes.io/os", "beta.kubernetes.io/arch"].map(label);
        labels == [Some("linux".to_owned()), Some("arm64".to_owned())]
    })
    .await;
    stage.api.remove::<Node>("", "a");
    let look = || {
        let told = told(&stage, "RemovingNode");
        async move { told == ["Node a event: Removing Node a from Controller"] }
    };
    eventually_within(LONG, look).await;
}

/// A node falls silent, and comes back when its pods are not ready and it has its taints.
const STORY: Story = Story {
    make,
    setup: |stage| {
        for name in ["a", "b", "c"] {
            put_node(stage, name, &json!({}));
        }
        put_pod(stage, "web", "c");
        put_pod(stage, "shop", "c");
    },
    play: |stage| {
        beat(stage, &["a", "b"]);
        let node = stage.api.get::<Node>("", "c").unwrap();
        let is_back = node
            .metadata
            .annotations
            .is_some_and(|annotations| annotations.contains_key(BACK));
        if is_back {
            beat(stage, &["c"]);
        } else if taints(stage, "c") == UNREACHABLE
            && !is_pod_ready(stage, "web")
            && !is_pod_ready(stage, "shop")
        {
            for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
                say(stage, "c", kind, if kind == "Ready" { "True" } else { "False" });
            }
            stage.api.edit::<Node>("", "c", |node| {
                let annotations = node.metadata.annotations.get_or_insert_default();
                annotations.insert(BACK.to_owned(), String::new());
            });
        }
    },
    end: |stage| {
        let node = stage.api.get::<Node>("", "c")?;
        node.metadata.annotations?.get(BACK)?;
        let all: Vec<_> = ["a", "b", "c"].iter().map(|name| taints(stage, name)).collect();
        let ready = condition(stage, "c", "Ready").status;
        all.iter()
            .all(Vec::is_empty)
            .then(|| json!({"taints": all, "ready": ready}))
    },
};

#[tokio::test(start_paused = true)]
async fn whoever_crashes_a_node_is_declared_unreachable_and_comes_back() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
