use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, ReplicationController},
};
use kubecontroller::testing::{Fault, RequestMatcher};
use serde_json::{Value, json};

use super::make;
use crate::{
    replication,
    resource::{PODS, REPLICA_SETS, REPLICATION_CONTROLLERS},
    testing::{Scenario, TestCluster},
};

fn set(replicas: u32) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}},
        },
    })
}

fn pod(name: &str, labels: &Value, owner: Option<&Value>) -> Value {
    let owners = owner.map(|owner| {
        json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }])
    });
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": labels},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Pending"},
    });
    if let Some(owners) = owners {
        pod["metadata"]["ownerReferences"] = owners;
    }
    pod
}

/// (replicas, labelled, ready, available, terminating) of the set.
fn counts(cluster: &TestCluster) -> Option<(i32, i32, i32, i32, i32)> {
    let status = cluster.api.get::<ReplicaSet>("shop", "web")?.status?;
    Some((
        status.replicas,
        status.fully_labeled_replicas.unwrap_or(0),
        status.ready_replicas.unwrap_or(0),
        status.available_replicas.unwrap_or(0),
        status.terminating_replicas?,
    ))
}

/// All pods are there, ready and in the status; otherwise the observed state.
fn full(cluster: &TestCluster, replicas: i32) -> Result<Value, Value> {
    let pods = cluster.pods_by_owner();
    let counts = counts(cluster);
    let found = json!({"pods": pods, "status": counts});
    let is_full = counts == Some((replicas, replicas, replicas, replicas, 0))
        && pods.values().sum::<usize>() == usize::try_from(replicas).unwrap_or(0);
    if is_full { Ok(found) } else { Err(found) }
}

#[tokio::test(start_paused = true)]
async fn creates_and_deletes_pods() {
    let cluster = TestCluster::new();
    cluster.put(&REPLICA_SETS, set(3));
    let _running = cluster.start("k3", make);
    cluster.until(|| full(&cluster, 3)).await;
    let pod = &cluster.api.list::<Pod>()[0];
    assert!(pod.metadata.name.as_ref().unwrap().starts_with("web-"));
    cluster.api.edit::<ReplicaSet>("shop", "web", |set| {
        set.metadata.generation = Some(2);
        set.spec.replicas = Some(1);
    });
    cluster.until(|| full(&cluster, 1)).await;
    let status = cluster
        .api
        .get::<ReplicaSet>("shop", "web")
        .unwrap()
        .status
        .unwrap();
    assert_eq!((status.observed_generation, status.conditions), (Some(2), None));
}

#[tokio::test(start_paused = true)]
async fn a_status_write_is_one_request_with_a_precondition() {
    let cluster = TestCluster::new();
    cluster.put(&REPLICA_SETS, set(1));
    // Another writer was faster once.
    let first = RequestMatcher::verb("patch")
        .resource("replicasets/status")
        .times(1);
    cluster.api.faults().on(first, Fault::Status(409));
    let _running = cluster.start("k3", make);
    cluster.until(|| full(&cluster, 1)).await;
    let requests = cluster.api.requests().into_iter();
    let of_the_set: Vec<_> = requests
        .filter(|request| {
            request.is_for("replicasets/status") || request.is_for("replicasets") && request.name == "web"
        })
        .collect();
    assert!(
        of_the_set.len() >= 2,
        "the rejected write is repeated: {of_the_set:?}"
    );
    for request in of_the_set {
        assert_eq!(
            (request.verb, &*request.subresource),
            ("patch", "status"),
            "{request:?}"
        );
        assert!(
            request.body["metadata"]["resourceVersion"].is_string(),
            "{request:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn reconciles_replication_controllers() {
    let cluster = TestCluster::new();
    let mut controller = set(2);
    controller["spec"]["selector"] = json!({"app": "a"});
    cluster.put(&REPLICATION_CONTROLLERS, controller);
    let _running = cluster.start("k3", replication::make);
    cluster
        .until(|| {
            let status = cluster.api.get::<ReplicationController>("shop", "web")?.status?;
            (status.ready_replicas == Some(2) && cluster.pods_by_owner() == [("web".to_owned(), 2)].into())
                .then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn adopts_orphans_and_releases_others() {
    let cluster = TestCluster::new();
    let web = cluster.put(&REPLICA_SETS, set(2));
    cluster.put(&PODS, pod("orphan", &json!({"app": "a"}), None));
    cluster.put(&PODS, pod("stranger", &json!({"app": "b"}), Some(&web)));
    let mut other = web.clone();
    other["metadata"]["uid"] = json!("other");
    cluster.put(&PODS, pod("other", &json!({"app": "a"}), Some(&other)));
    let _running = cluster.start("k3", make);
    cluster
        .until(|| {
            let owner = |name: &str| {
                let pod = cluster.api.get::<Pod>("shop", name)?;
                Some(
                    pod.metadata
                        .owner_references
                        .unwrap_or_default()
                        .first()?
                        .uid
                        .clone(),
                )
            };
            let owners = (owner("orphan"), owner("stranger"), owner("other"));
            let uid = web["metadata"]["uid"].as_str().map(str::to_owned);
            let expectations = (uid, None, Some("other".to_owned()));
            // The orphan and one that was made, the stranger, and the one of another set.
            (owners == expectations && cluster.api.list::<Pod>().len() == 4).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn reports_failed_pod_creation_until_it_succeeds() {
    let cluster = TestCluster::new();
    cluster.put(&REPLICA_SETS, set(3));
    let create = || RequestMatcher::verb("create").resource("pods");
    cluster.api.faults().on(create().skip(1), Fault::Status(403));
    let _running = cluster.start("k3", make);
    let reason = |cluster: &TestCluster| {
        let conditions = cluster.api.get::<ReplicaSet>("shop", "web")?.status?.conditions?;
        conditions.first().and_then(|condition| condition.reason.clone())
    };
    cluster
        .until(|| reason(&cluster).filter(|reason| reason == "FailedCreate"))
        .await;
    // One in a slow start, then two that are refused; never a third for the same reason.
    let first = cluster
        .api
        .requests()
        .iter()
        .filter(|request| request.verb == "create" && request.is_for("pods"))
        .count();
    assert!((2..=3).contains(&first), "{first}");
    cluster.api.faults().clear();
    cluster.until(|| full(&cluster, 3)).await;
    cluster.until(|| reason(&cluster).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn pod_is_available_after_min_ready_seconds() {
    let cluster = TestCluster::new();
    let mut web = set(1);
    web["spec"]["minReadySeconds"] = json!(30);
    cluster.put(&REPLICA_SETS, web);
    let _running = cluster.start("k3", make);
    cluster
        .until(|| counts(&cluster).filter(|counts| counts.2 == 1))
        .await;
    assert_eq!(counts(&cluster).unwrap().3, 0);
    let ready = tokio::time::Instant::now();
    cluster
        .until(|| counts(&cluster).filter(|counts| counts.3 == 1))
        .await;
    let waited = ready.elapsed().as_secs();
    assert!((28..=31).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn throttles_status_writes() {
    let cluster = TestCluster::new();
    cluster.put(&REPLICA_SETS, set(600));
    let _running = cluster.start("k3", make);
    cluster.until(|| full(&cluster, 600)).await;
    let writes = cluster.api.writes();
    let pods = writes
        .iter()
        .filter(|write| write.verb == "create" && write.is_for("pods"))
        .count();
    let status = writes
        .iter()
        .filter(|write| write.subresource == "status")
        .count();
    assert_eq!(pods, 600);
    assert!(status <= 40, "{status}");
}

#[tokio::test(start_paused = true)]
async fn writes_nothing_when_settled() {
    let cluster = TestCluster::new();
    cluster.put(&REPLICA_SETS, set(3));
    let _running = cluster.start("k3", make);
    cluster.until(|| full(&cluster, 3)).await;
    cluster.rest(Duration::from_secs(1)).await;
    cluster.api.clear_requests();
    cluster.rest(Duration::from_mins(1)).await;
    assert_eq!(cluster.api.writes().len(), 0);
}

/// A set is filled, and takes an orphan in.
const FILLED: Scenario = Scenario {
    make,
    setup: |cluster| {
        cluster.put(&REPLICA_SETS, set(3));
        cluster.put(&PODS, pod("orphan", &json!({"app": "a"}), None));
    },
    play: |cluster| cluster.run_pods(|_| false),
    end: |cluster| full(cluster, 3).ok(),
};

/// A set is filled, and then is to have fewer pods.
const SHRUNK: Scenario = Scenario {
    make,
    setup: |cluster| {
        cluster.put(&REPLICA_SETS, set(5));
    },
    play: |cluster| {
        cluster.run_pods(|_| false);
        let web = cluster.api.get::<ReplicaSet>("shop", "web");
        if web.is_some_and(|web| web.spec.replicas == Some(5)) && full(cluster, 5).is_ok() {
            cluster.api.edit::<ReplicaSet>("shop", "web", |web| {
                web.metadata.generation = Some(2);
                web.spec.replicas = Some(2);
            });
        }
    },
    end: |cluster| full(cluster, 2).ok(),
};

#[tokio::test(start_paused = true)]
async fn scales_up_despite_crashes() {
    FILLED.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn scales_down_despite_crashes() {
    SHRUNK.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_reconcile_one_set() {
    FILLED.survives_copies().await;
    SHRUNK.survives_copies().await;
    let (end, _) = SHRUNK.run().await;
    assert_eq!(end["pods"], json!({"web": 2}));
}
