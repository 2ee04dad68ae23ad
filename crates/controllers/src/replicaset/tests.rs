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
    testing::{Stage, Story},
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

/// (replicas, labelled, ready, available, going) of the set.
fn counts(stage: &Stage) -> Option<(i32, i32, i32, i32, i32)> {
    let status = stage.api.get::<ReplicaSet>("shop", "web")?.status?;
    Some((
        status.replicas,
        status.fully_labeled_replicas.unwrap_or(0),
        status.ready_replicas.unwrap_or(0),
        status.available_replicas.unwrap_or(0),
        status.terminating_replicas?,
    ))
}

/// All pods are there, ready and told of; otherwise what there is.
fn full(stage: &Stage, replicas: i32) -> Result<Value, Value> {
    let (pods, counts) = (stage.pods_by_owner(), counts(stage));
    let found = json!({"pods": pods, "status": counts});
    let is_full = counts == Some((replicas, replicas, replicas, replicas, 0))
        && pods.values().sum::<usize>() == usize::try_from(replicas).unwrap_or(0);
    if is_full { Ok(found) } else { Err(found) }
}

#[tokio::test(start_paused = true)]
async fn a_set_gets_its_pods_and_gives_them_back() {
    let stage = Stage::new();
    stage.put(&REPLICA_SETS, set(3));
    let _running = stage.start("k3", make);
    stage.until(|| full(&stage, 3)).await;
    let pod = &stage.api.list::<Pod>()[0];
    assert!(pod.metadata.name.as_ref().unwrap().starts_with("web-"));
    stage.api.edit::<ReplicaSet>("shop", "web", |set| {
        set.metadata.generation = Some(2);
        set.spec.replicas = Some(1);
    });
    stage.until(|| full(&stage, 1)).await;
    let status = stage
        .api
        .get::<ReplicaSet>("shop", "web")
        .unwrap()
        .status
        .unwrap();
    assert_eq!((status.observed_generation, status.conditions), (Some(2), None));
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_is_kept_the_same_way() {
    let stage = Stage::new();
    let mut controller = set(2);
    controller["spec"]["selector"] = json!({"app": "a"});
    stage.put(&REPLICATION_CONTROLLERS, controller);
    let _running = stage.start("k3", replication::make);
    stage
        .until(|| {
            let status = stage.api.get::<ReplicationController>("shop", "web")?.status?;
            (status.ready_replicas == Some(2) && stage.pods_by_owner() == [("web".to_owned(), 2)].into())
                .then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_strangers_are_let_go() {
    let stage = Stage::new();
    let web = stage.put(&REPLICA_SETS, set(2));
    stage.put(&PODS, pod("orphan", &json!({"app": "a"}), None));
    stage.put(&PODS, pod("stranger", &json!({"app": "b"}), Some(&web)));
    let mut other = web.clone();
    other["metadata"]["uid"] = json!("somebody");
    stage.put(&PODS, pod("other", &json!({"app": "a"}), Some(&other)));
    let _running = stage.start("k3", make);
    stage
        .until(|| {
            let owner = |name: &str| {
                let pod = stage.api.get::<Pod>("shop", name)?;
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
            let expected = (uid, None, Some("somebody".to_owned()));
            // The orphan and one that was made, the stranger, and the one of another set.
            (owners == expected && stage.api.list::<Pod>().len() == 4).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_made_are_told_until_they_can() {
    let stage = Stage::new();
    stage.put(&REPLICA_SETS, set(3));
    let create = || RequestMatcher::verb("create").resource("pods");
    stage.api.faults().on(create().skip(1), Fault::Status(403));
    let _running = stage.start("k3", make);
    let reason = |stage: &Stage| {
        let conditions = stage.api.get::<ReplicaSet>("shop", "web")?.status?.conditions?;
        conditions.first().and_then(|condition| condition.reason.clone())
    };
    stage
        .until(|| reason(&stage).filter(|reason| reason == "FailedCreate"))
        .await;
    // One in a slow start, then two that are refused; never a third for the same reason.
    let first = stage
        .api
        .requests()
        .iter()
        .filter(|request| request.verb == "create" && request.is_for("pods"))
        .count();
    assert!((2..=3).contains(&first), "{first}");
    stage.api.faults().clear();
    stage.until(|| full(&stage, 3)).await;
    stage.until(|| reason(&stage).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let stage = Stage::new();
    let mut web = set(1);
    web["spec"]["minReadySeconds"] = json!(30);
    stage.put(&REPLICA_SETS, web);
    let _running = stage.start("k3", make);
    stage
        .until(|| counts(&stage).filter(|counts| counts.2 == 1))
        .await;
    assert_eq!(counts(&stage).unwrap().3, 0);
    let ready = tokio::time::Instant::now();
    stage
        .until(|| counts(&stage).filter(|counts| counts.3 == 1))
        .await;
    let waited = ready.elapsed().as_secs();
    assert!((28..=31).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn many_pods_cost_few_writes_of_the_status() {
    let stage = Stage::new();
    stage.put(&REPLICA_SETS, set(600));
    let _running = stage.start("k3", make);
    stage.until(|| full(&stage, 600)).await;
    let writes = stage.api.writes();
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
async fn nothing_is_written_once_all_is_as_it_should_be() {
    let stage = Stage::new();
    stage.put(&REPLICA_SETS, set(3));
    let _running = stage.start("k3", make);
    stage.until(|| full(&stage, 3)).await;
    stage.rest(Duration::from_secs(1)).await;
    stage.api.clear_requests();
    stage.rest(Duration::from_mins(1)).await;
    assert_eq!(stage.api.writes().len(), 0);
}

/// A set is filled, and takes an orphan in.
const FILLED: Story = Story {
    make,
    setup: |stage| {
        stage.put(&REPLICA_SETS, set(3));
        stage.put(&PODS, pod("orphan", &json!({"app": "a"}), None));
    },
    play: |stage| stage.run_pods(|_| false),
    end: |stage| full(stage, 3).ok(),
};

/// A set is filled, and then is to have fewer pods.
const SHRUNK: Story = Story {
    make,
    setup: |stage| {
        stage.put(&REPLICA_SETS, set(5));
    },
    play: |stage| {
        stage.run_pods(|_| false);
        let web = stage.api.get::<ReplicaSet>("shop", "web");
        if web.is_some_and(|web| web.spec.replicas == Some(5)) && full(stage, 5).is_ok() {
            stage.api.edit::<ReplicaSet>("shop", "web", |web| {
                web.metadata.generation = Some(2);
                web.spec.replicas = Some(2);
            });
        }
    },
    end: |stage| full(stage, 2).ok(),
};

#[tokio::test(start_paused = true)]
async fn a_set_is_filled_wherever_its_controller_dies() {
    FILLED.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn a_set_shrinks_wherever_its_controller_dies() {
    SHRUNK.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_copies_keep_one_set() {
    FILLED.survives_copies().await;
    SHRUNK.survives_copies().await;
    let (end, _) = SHRUNK.run().await;
    assert_eq!(end["pods"], json!({"web": 2}));
}
