//! What becomes of pods on nodes whose taints they do not bear.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::make;
use crate::{
    resource::{NODES, PODS},
    testing::{Scenario, TestCluster},
};

fn put_node(cluster: &TestCluster, name: &str, taints: &[&str]) {
    let taints: Vec<_> = taints
        .iter()
        .map(|key| json!({"key": key, "effect": "NoExecute"}))
        .collect();
    cluster.put(
        &NODES,
        json!({"metadata": {"name": name}, "spec": {"taints": taints}}),
    );
}

fn taint(cluster: &TestCluster, keys: &[&str]) {
    cluster.api.edit::<Node>("", "n1", |node| {
        let taints = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"}));
        let taints: Vec<_> = taints
            .map(|taint| serde_json::from_value(taint).unwrap())
            .collect();
        node.spec.get_or_insert_default().taints = Some(taints);
    });
}

/// For how long a pod bears the taint `down`.
#[derive(Clone, Copy)]
enum TolerationSeconds {
    Not,
    Seconds(u32),
    Forever,
}

fn put_pod(cluster: &TestCluster, name: &str, node: &str, toleration: TolerationSeconds) {
    let bear = |seconds: Option<u32>| json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    let tolerations = match toleration {
        TolerationSeconds::Not => json!([]),
        TolerationSeconds::Seconds(seconds) => bear(Some(seconds)),
        TolerationSeconds::Forever => bear(None),
    };
    cluster.put(
        &PODS,
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": node, "containers": [], "tolerations": tolerations},
            "status": {"phase": "Running"},
        }),
    );
}

fn is_terminating(cluster: &TestCluster, name: &str) -> bool {
    let pod = cluster.api.get::<Pod>("shop", name);
    pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
}

async fn until_terminating(cluster: &TestCluster, name: &str) {
    kubecontroller::testing::eventually(|| {
        let seen = is_terminating(cluster, name);
        async move { seen }
    })
    .await;
}

/// Recorded events.
fn event_messages(cluster: &TestCluster) -> Vec<String> {
    let events = cluster.api.list::<Event>().into_iter();
    let reported = events.filter(|event| event.reason.as_deref() == Some("TaintManagerEviction"));
    let mut reported: Vec<_> = reported.filter_map(|event| event.message).collect();
    reported.sort();
    reported
}

#[tokio::test(start_paused = true)]
async fn evicts_a_pod_without_toleration() {
    let cluster = TestCluster::new();
    put_node(&cluster, "n1", &[]);
    put_pod(&cluster, "web", "n1", TolerationSeconds::Not);
    put_pod(&cluster, "strong", "n1", TolerationSeconds::Forever);
    put_pod(&cluster, "elsewhere", "n2", TolerationSeconds::Not);
    let _running = cluster.start("k3", make);
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.api.writes().is_empty());
    taint(&cluster, &["down"]);
    until_terminating(&cluster, "web").await;
    let pod = cluster.api.get::<Pod>("shop", "web").unwrap();
    let conditions = serde_json::to_value(pod.status.unwrap().conditions).unwrap();
    assert_eq!(
        conditions,
        json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "observedGeneration": 1,
            "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": "2026-01-01T00:00:35Z",
        }])
    );
    sleep(Duration::from_mins(10)).await;
    assert!(!is_terminating(&cluster, "strong") && !is_terminating(&cluster, "elsewhere"));
    assert_eq!(event_messages(&cluster), ["Marking for deletion Pod shop/web"]);
    let writes = cluster.api.writes();
    let of_pods = writes
        .iter()
        .filter(|write| write.is_for("pods") || write.is_for("pods/status"));
    let verbs: Vec<_> = of_pods.map(|write| write.verb).collect();
    assert_eq!(verbs, ["patch", "delete"]);
}

#[tokio::test(start_paused = true)]
async fn evicts_a_new_pod_after_toleration_seconds() {
    let cluster = TestCluster::new();
    put_node(&cluster, "n1", &["down"]);
    let _running = cluster.start("k3", make);
    sleep(Duration::from_secs(1)).await;
    put_pod(&cluster, "patient", "n1", TolerationSeconds::Seconds(40));
    let start = Instant::now();
    until_terminating(&cluster, "patient").await;
    assert_eq!(start.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn cancels_eviction_when_the_taint_is_removed() {
    let cluster = TestCluster::new();
    put_node(&cluster, "n1", &["down"]);
    put_pod(&cluster, "patient", "n1", TolerationSeconds::Seconds(40));
    let _running = cluster.start("k3", make);
    sleep(Duration::from_secs(30)).await;
    taint(&cluster, &[]);
    sleep(Duration::from_mins(5)).await;
    assert!(!is_terminating(&cluster, "patient"));
    assert_eq!(
        event_messages(&cluster),
        ["Cancelling deletion of Pod shop/patient"]
    );
    // The time starts again.
    taint(&cluster, &["down"]);
    let start = Instant::now();
    until_terminating(&cluster, "patient").await;
    assert_eq!(start.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn shorter_toleration_shortens_the_wait() {
    let cluster = TestCluster::new();
    put_node(&cluster, "n1", &["down"]);
    put_pod(&cluster, "patient", "n1", TolerationSeconds::Seconds(300));
    let _running = cluster.start("k3", make);
    sleep(Duration::from_secs(30)).await;
    taint(&cluster, &["down", "broken"]);
    let start = Instant::now();
    until_terminating(&cluster, "patient").await;
    assert_eq!(start.elapsed().as_secs(), 0);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        event_messages(&cluster),
        [
            "Cancelling deletion of Pod shop/patient",
            "Marking for deletion Pod shop/patient"
        ]
    );
}

/// One is evicted at once, one after a while, one stays, one is elsewhere.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        put_node(cluster, "n1", &["down"]);
        put_node(cluster, "n2", &[]);
        put_pod(cluster, "weak", "n1", TolerationSeconds::Not);
        put_pod(cluster, "patient", "n1", TolerationSeconds::Seconds(20));
        put_pod(cluster, "strong", "n1", TolerationSeconds::Forever);
        put_pod(cluster, "elsewhere", "n2", TolerationSeconds::Not);
    },
    play: |cluster| {
        for pod in cluster.pods() {
            if pod["metadata"].get("deletionTimestamp").is_some() {
                let is_marked = pod["status"]["conditions"][0]["type"] == "DisruptionTarget";
                assert!(is_marked, "{pod}");
                let name = pod["metadata"]["name"].as_str().unwrap();
                cluster.api.remove::<Pod>("shop", name);
            }
        }
    },
    end: |cluster| {
        let pods = cluster.pods();
        let names: Vec<Value> = pods.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        (names.len() == 2).then(|| names.into())
    },
};

#[tokio::test(start_paused = true)]
async fn evicts_despite_crashes() {
    let (end, writes) = STORY.run().await;
    assert_eq!((end, writes), (json!(["elsewhere", "strong"]), 4));
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
