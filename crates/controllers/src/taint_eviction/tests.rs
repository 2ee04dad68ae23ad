//! What becomes of pods on nodes whose taints they do not bear.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::make;
use crate::{
    resource::{NODES, PODS},
    testing::{Stage, Story},
};

fn put_node(stage: &Stage, name: &str, taints: &[&str]) {
    let taints: Vec<_> = taints
        .iter()
        .map(|key| json!({"key": key, "effect": "NoExecute"}))
        .collect();
    stage.put(
        &NODES,
        json!({"metadata": {"name": name}, "spec": {"taints": taints}}),
    );
}

fn taint(stage: &Stage, keys: &[&str]) {
    stage.api.edit::<Node>("", "n1", |node| {
        let taints = keys.iter().map(|key| json!({"key": key, "effect": "NoExecute"}));
        let taints: Vec<_> = taints
            .map(|taint| serde_json::from_value(taint).unwrap())
            .collect();
        node.spec.get_or_insert_default().taints = Some(taints);
    });
}

/// For how long a pod bears the taint `down`.
#[derive(Clone, Copy)]
enum Bears {
    Not,
    Seconds(u32),
    Forever,
}

fn put_pod(stage: &Stage, name: &str, node: &str, bears: Bears) {
    let bear = |seconds: Option<u32>| json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    let tolerations = match bears {
        Bears::Not => json!([]),
        Bears::Seconds(seconds) => bear(Some(seconds)),
        Bears::Forever => bear(None),
    };
    stage.put(
        &PODS,
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": node, "containers": [], "tolerations": tolerations},
            "status": {"phase": "Running"},
        }),
    );
}

fn is_going(stage: &Stage, name: &str) -> bool {
    let pod = stage.api.get::<Pod>("shop", name);
    pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
}

async fn until_going(stage: &Stage, name: &str) {
    kubecontroller::testing::eventually(|| {
        let seen = is_going(stage, name);
        async move { seen }
    })
    .await;
}

/// What people were told.
fn told(stage: &Stage) -> Vec<String> {
    let events = stage.api.list::<Event>().into_iter();
    let told = events.filter(|event| event.reason.as_deref() == Some("TaintManagerEviction"));
    let mut told: Vec<_> = told.filter_map(|event| event.message).collect();
    told.sort();
    told
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_bear_a_taint_is_marked_and_goes() {
    let stage = Stage::new();
    put_node(&stage, "n1", &[]);
    put_pod(&stage, "web", "n1", Bears::Not);
    put_pod(&stage, "strong", "n1", Bears::Forever);
    put_pod(&stage, "elsewhere", "n2", Bears::Not);
    let _running = stage.start("k3", make);
    sleep(Duration::from_secs(5)).await;
    assert!(stage.api.writes().is_empty());
    taint(&stage, &["down"]);
    until_going(&stage, "web").await;
    let pod = stage.api.get::<Pod>("shop", "web").unwrap();
    let conditions = serde_json::to_value(pod.status.unwrap().conditions).unwrap();
    assert_eq!(
        conditions,
        json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "observedGeneration": 1,
            "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": "2026-01-01T00:00:35Z",
        }])
    );
    sleep(Duration::from_mins(10)).await;
    assert!(!is_going(&stage, "strong") && !is_going(&stage, "elsewhere"));
    assert_eq!(told(&stage), ["Marking for deletion Pod shop/web"]);
    let writes = stage.api.writes();
    let of_pods = writes
        .iter()
        .filter(|write| write.is_for("pods") || write.is_for("pods/status"));
    let verbs: Vec<_> = of_pods.map(|write| write.verb).collect();
    assert_eq!(verbs, ["patch", "delete"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_to_a_tainted_node_goes_when_its_time_is_over() {
    let stage = Stage::new();
    put_node(&stage, "n1", &["down"]);
    let _running = stage.start("k3", make);
    sleep(Duration::from_secs(1)).await;
    put_pod(&stage, "patient", "n1", Bears::Seconds(40));
    let start = Instant::now();
    until_going(&stage, "patient").await;
    assert_eq!(start.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_goes_in_time_was_as_if_never_there() {
    let stage = Stage::new();
    put_node(&stage, "n1", &["down"]);
    put_pod(&stage, "patient", "n1", Bears::Seconds(40));
    let _running = stage.start("k3", make);
    sleep(Duration::from_secs(30)).await;
    taint(&stage, &[]);
    sleep(Duration::from_mins(5)).await;
    assert!(!is_going(&stage, "patient"));
    assert_eq!(told(&stage), ["Cancelling deletion of Pod shop/patient"]);
    // The time begins anew.
    taint(&stage, &["down"]);
    let start = Instant::now();
    until_going(&stage, "patient").await;
    assert_eq!(start.elapsed().as_secs(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_worse_taint_shortens_the_wait() {
    let stage = Stage::new();
    put_node(&stage, "n1", &["down"]);
    put_pod(&stage, "patient", "n1", Bears::Seconds(300));
    let _running = stage.start("k3", make);
    sleep(Duration::from_secs(30)).await;
    taint(&stage, &["down", "broken"]);
    let start = Instant::now();
    until_going(&stage, "patient").await;
    assert_eq!(start.elapsed().as_secs(), 0);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(
        told(&stage),
        [
            "Cancelling deletion of Pod shop/patient",
            "Marking for deletion Pod shop/patient"
        ]
    );
}

/// One goes at once, one after a while, one stays, one is elsewhere.
const STORY: Story = Story {
    make,
    setup: |stage| {
        put_node(stage, "n1", &["down"]);
        put_node(stage, "n2", &[]);
        put_pod(stage, "weak", "n1", Bears::Not);
        put_pod(stage, "patient", "n1", Bears::Seconds(20));
        put_pod(stage, "strong", "n1", Bears::Forever);
        put_pod(stage, "elsewhere", "n2", Bears::Not);
    },
    play: |stage| {
        for pod in stage.pods() {
            if pod["metadata"].get("deletionTimestamp").is_some() {
                let is_marked = pod["status"]["conditions"][0]["type"] == "DisruptionTarget";
                assert!(is_marked, "{pod}");
                let name = pod["metadata"]["name"].as_str().unwrap();
                stage.api.remove::<Pod>("shop", name);
            }
        }
    },
    end: |stage| {
        let pods = stage.pods();
        let names: Vec<Value> = pods.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        (names.len() == 2).then(|| names.into())
    },
};

#[tokio::test(start_paused = true)]
async fn whoever_crashes_pods_go_that_cannot_stay() {
    let (end, writes) = STORY.run().await;
    assert_eq!((end, writes), (json!(["elsewhere", "strong"]), 4));
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
