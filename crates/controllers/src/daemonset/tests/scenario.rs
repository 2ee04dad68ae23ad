use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet},
    core::v1::{Event, Node},
};
use kubecontroller::testing::{eventually, eventually_within};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    daemonset::make,
    resource::{CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS},
    testing::{Scenario, TestCluster},
};

const HASH: &str = "controller-revision-hash";

fn put_nodes(cluster: &TestCluster, names: &[&str]) {
    for name in names {
        cluster.put(&NODES, json!({"metadata": {"name": name}, "spec": {}}));
    }
}

fn put_set(cluster: &TestCluster, strategy: &Value) {
    cluster.put(
        &DAEMON_SETS,
        json!({
            "metadata": {"name": "d", "namespace": "shop", "generation": 1, "annotations": {"why": "test"}},
            "spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "revisionHistoryLimit": 10,
                "updateStrategy": strategy,
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"name": "c", "image": "one"}]},
                },
            },
        }),
    );
}

fn plain() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
}

fn set(cluster: &TestCluster) -> Value {
    serde_json::to_value(cluster.api.get::<DaemonSet>("shop", "d")).unwrap()
}

/// Changes the image, as a client does.
fn set_image(cluster: &TestCluster, image: &str) {
    let mut set = set(cluster);
    set["metadata"]["generation"] = (set["metadata"]["generation"].as_i64().unwrap() + 1).into();
    set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    cluster.put(&DAEMON_SETS, set);
}

/// The nodes of the pods, with their images.
fn images(cluster: &TestCluster) -> Vec<Value> {
    let pods = cluster.pods().into_iter();
    let mut images: Vec<_> = pods
        .map(|pod| json!([pod["spec"]["nodeName"], pod["spec"]["containers"][0]["image"]]))
        .collect();
    images.sort_by_key(Value::to_string);
    images
}

fn revisions(cluster: &TestCluster) -> Vec<i64> {
    let revisions = cluster.api.list::<ControllerRevision>().into_iter();
    let mut numbers: Vec<_> = revisions.filter_map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    numbers
}

/// What there is when there is a pod of an image on so many nodes, all are ready, and everybody knows.
fn complete(cluster: &TestCluster, image: &str, nodes: usize) -> Option<Value> {
    let set = set(cluster);
    let status = &set["status"];
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "numberAvailable",
        "updatedNumberScheduled",
    ];
    let images = images(cluster);
    let is_complete = counts.iter().all(|count| status[count] == nodes)
        && status["observedGeneration"] == set["metadata"]["generation"]
        && status["numberMisscheduled"] == 0
        && images.len() == nodes
        && images.iter().all(|pair| pair[1] == image);
    is_complete.then(|| json!({"images": images, "revisions": revisions(cluster)}))
}

async fn until(cluster: &TestCluster, image: &str, nodes: usize) -> Value {
    eventually_within(Duration::from_mins(5), || async {
        cluster.run_pods(|_| false);
        complete(cluster, image, nodes)
    })
    .await
}

async fn rest(cluster: &TestCluster, turns: u32) {
    for _ in 0..turns {
        cluster.run_pods(|_| false);
        sleep(Duration::from_millis(250)).await;
    }
}

/// Pods start on two nodes and are replaced, one after the other.
const ROLLED: Scenario = Scenario {
    make,
    setup: |cluster| {
        put_nodes(cluster, &["n1", "n2"]);
        put_set(cluster, &plain());
    },
    play: |cluster| {
        cluster.run_pods(|_| false);
        if set(cluster)["metadata"]["generation"] == 1 && complete(cluster, "one", 2).is_some() {
            set_image(cluster, "two");
        }
    },
    end: |cluster| complete(cluster, "two", 2),
};

/// The same with new pods beside the old ones.
const SURGING: Scenario = Scenario {
    setup: |cluster| {
        put_nodes(cluster, &["n1", "n2"]);
        put_set(
            cluster,
            &json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}),
        );
    },
    ..ROLLED
};

#[tokio::test(start_paused = true)]
async fn starts_on_all_nodes_and_updates() {
    let (end, writes) = ROLLED.run().await;
    assert_eq!(
        end,
        json!({"images": [["n1", "two"], ["n2", "two"]], "revisions": [1, 2]})
    );
    assert!(writes < 40, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn survives_crashes_between_writes() {
    ROLLED.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn surging_update_survives_crashes() {
    SURGING.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_behave_as_one() {
    for story in [ROLLED, SURGING] {
        story.survives_copies().await;
    }
}

/// On how many nodes a pod is ready and stays, and how many pods there are.
fn working(cluster: &TestCluster) -> (usize, usize) {
    let mut pods = cluster.pods();
    pods.retain(|pod| pod["metadata"].get("deletionTimestamp").is_none());
    let ready = pods.iter().filter(|pod| pod["status"]["phase"] == "Running");
    let nodes: BTreeSet<_> = ready.map(|pod| pod["spec"]["nodeName"].to_string()).collect();
    (nodes.len(), pods.len())
}

#[tokio::test(start_paused = true)]
async fn rolling_update_keeps_its_bounds() {
    let bounds = |unavailable: i32, surge: i32| json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}});
    for (strategy, min, max) in [(bounds(2, 0), 3, 5), (bounds(0, 2), 5, 7)] {
        let cluster = TestCluster::new();
        put_nodes(&cluster, &["n1", "n2", "n3", "n4", "n5"]);
        put_set(&cluster, &strategy);
        let _running = cluster.start("one", make);
        until(&cluster, "one", 5).await;
        set_image(&cluster, "two");
        let check = || {
            let (nodes, pods) = working(&cluster);
            assert!(nodes >= min && pods <= max, "{nodes} nodes, {pods} pods");
        };
        eventually_within(Duration::from_mins(5), || async {
            check();
            cluster.run_pods(|_| false);
            check();
            complete(&cluster, "two", 5)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn follows_nodes_and_taints() {
    let cluster = TestCluster::new();
    put_nodes(&cluster, &["n1"]);
    put_set(&cluster, &plain());
    let _running = cluster.start("one", make);
    until(&cluster, "one", 1).await;
    put_nodes(&cluster, &["n2"]);
    until(&cluster, "one", 2).await;
    let taint = |effect: &str| json!({"metadata": {"name": "n2"}, "spec": {"taints": [{"key": "a", "effect": effect}]}});
    cluster.put(&NODES, taint("NoSchedule"));
    eventually(|| async { set(&cluster)["status"]["numberMisscheduled"] == 1 }).await;
    assert_eq!(images(&cluster).len(), 2);
    cluster.put(&NODES, taint("NoExecute"));
    until(&cluster, "one", 1).await;
    put_nodes(&cluster, &["n2"]);
    until(&cluster, "one", 2).await;
    cluster.api.remove::<Node>("", "n2");
    eventually(|| async { set(&cluster)["status"]["desiredNumberScheduled"] == 1 }).await;
    cluster.api.clear_requests();
    rest(&cluster, 240).await;
    assert_eq!(cluster.api.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn on_delete_keeps_old_pods() {
    let cluster = TestCluster::new();
    put_nodes(&cluster, &["n1", "n2"]);
    put_set(&cluster, &json!({"type": "OnDelete"}));
    let _running = cluster.start("one", make);
    until(&cluster, "one", 2).await;
    set_image(&cluster, "two");
    rest(&cluster, 20).await;
    assert_eq!(images(&cluster), [json!(["n1", "one"]), json!(["n2", "one"])]);
    assert_eq!(revisions(&cluster), [1, 2]);
    assert_eq!(set(&cluster)["status"]["updatedNumberScheduled"], Value::Null);
    let pods = cluster.pods();
    let on_first = pods.iter().find(|pod| pod["spec"]["nodeName"] == "n1").unwrap();
    let name = on_first["metadata"]["name"].as_str().unwrap();
    cluster
        .api
        .remove::<k8s_openapi::api::core::v1::Pod>("shop", name);
    rest(&cluster, 20).await;
    assert_eq!(images(&cluster), [json!(["n1", "two"]), json!(["n2", "one"])]);
}

#[tokio::test(start_paused = true)]
async fn backs_off_for_repeatedly_failing_pods() {
    let cluster = TestCluster::new();
    put_nodes(&cluster, &["n1"]);
    put_set(&cluster, &plain());
    let _running = cluster.start("one", make);
    until(&cluster, "one", 1).await;
    cluster.api.clear_requests();
    // All fail at once, for a minute.
    for _ in 0..240 {
        for mut pod in cluster.pods() {
            if pod["metadata"].get("deletionTimestamp").is_none() && pod["status"]["phase"] != "Failed" {
                pod["spec"]["nodeName"] = "n1".into();
                pod["status"] = json!({"phase": "Failed"});
                cluster.put(&PODS, pod);
            }
        }
        cluster.run_pods(|_| true);
        sleep(Duration::from_millis(250)).await;
    }
    let writes = cluster.api.writes();
    let deleted = writes.iter().filter(|write| write.verb == "delete").count();
    // After 0, 1, 3, 7, 15 and 31 seconds.
    assert_eq!(deleted, 6);
    let events = cluster.api.list::<Event>();
    let reported = events
        .iter()
        .any(|event| event.reason.as_deref() == Some("FailedDaemonPod"));
    assert!(reported);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_delay_replacements() {
    let cluster = TestCluster::new();
    put_nodes(&cluster, &["n1"]);
    put_set(&cluster, &plain());
    let _running = cluster.start("one", make);
    until(&cluster, "one", 1).await;
    let fail = || {
        let mut pod = cluster.pods().remove(0);
        pod["spec"]["nodeName"] = "n1".into();
        pod["status"] = json!({"phase": "Failed"});
        cluster.put(&PODS, pod);
    };
    let uid = || cluster.pods().first().map(|pod| pod["metadata"]["uid"].clone());
    let replaced = async |failed: &Option<Value>, limit| {
        eventually_within(limit, || async {
            cluster.run_pods(|_| false);
            uid().is_some() && uid() != *failed
        })
        .await;
    };
    // After four failures the next failed pod is kept for eight seconds.
    for _ in 0..4 {
        let failed = uid();
        fail();
        replaced(&failed, Duration::from_mins(1)).await;
    }
    let failed = uid();
    fail();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(uid(), failed);
    cluster.set_clock_back(Duration::from_hours(1));
    replaced(&failed, Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn merges_duplicate_revisions() {
    let cluster = TestCluster::new();
    put_nodes(&cluster, &["n1"]);
    put_set(&cluster, &plain());
    let running = cluster.start("one", make);
    until(&cluster, "one", 1).await;
    drop(running);
    let mut double = serde_json::to_value(cluster.api.list::<ControllerRevision>().remove(0)).unwrap();
    let metadata = &mut double["metadata"];
    metadata["name"] = "d-double".into();
    metadata["labels"][HASH] = "double".into();
    metadata["uid"] = "double".into();
    double["revision"] = 2.into();
    cluster.put(&CONTROLLER_REVISIONS, double);
    let uid = cluster.pods()[0]["metadata"]["uid"].clone();
    let _running = cluster.start("two", make);
    eventually(|| async { revisions(&cluster) == [2] }).await;
    let pod = cluster.pods().remove(0);
    assert_eq!(
        (&pod["metadata"]["uid"], &pod["metadata"]["labels"][HASH]),
        (&uid, &json!("double"))
    );
}

#[tokio::test(start_paused = true)]
async fn records_events() {
    let cluster = TestCluster::new();
    put_nodes(&cluster, &["n1"]);
    put_set(&cluster, &plain());
    let _running = cluster.start("one", make);
    until(&cluster, "one", 1).await;
    let name = cluster.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.put(
        &NODES,
        json!({"metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
    );
    let reported = eventually_within(Duration::from_mins(5), || async {
        let events = cluster.api.list::<Event>().into_iter();
        let mut reported: Vec<_> = events
            .filter_map(|event| Some((event.reason?, event.message?)))
            .collect();
        reported.sort();
        (reported.len() == 2).then_some(reported)
    });
    let expectations = [
        ("SuccessfulCreate".to_owned(), format!("Created pod: {name}")),
        ("SuccessfulDelete".to_owned(), format!("Deleted pod: {name}")),
    ];
    assert_eq!(reported.await, expectations);
}
