use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, ReplicationController},
};
use kubecontroller::testing::{Fault, Requests};
use serde_json::{Value, json};

use crate::{
    replication,
    resource::{PODS, REPLICA_SETS, REPLICATION_CONTROLLERS},
    testing::{Make, World},
};

const MAKES: &[Make] = &[super::make];

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
    });
    if let Some(owners) = owners {
        pod["metadata"]["ownerReferences"] = owners;
    }
    pod
}

/// (replicas, labelled, ready, available, going) of the set.
fn counts(world: &World) -> Option<(i32, i32, i32, i32, i32)> {
    let status = world.api.get::<ReplicaSet>("shop", "web")?.status?;
    Some((
        status.replicas,
        status.fully_labeled_replicas.unwrap_or(0),
        status.ready_replicas.unwrap_or(0),
        status.available_replicas.unwrap_or(0),
        status.terminating_replicas?,
    ))
}

/// All pods are there, ready and told of; otherwise what there is.
fn full(world: &World, replicas: i32) -> Result<Value, Value> {
    let (pods, counts) = (world.pods(), counts(world));
    let found = json!({"pods": pods, "status": counts});
    let is_full = counts == Some((replicas, replicas, replicas, replicas, 0))
        && pods.values().sum::<usize>() == usize::try_from(replicas).unwrap_or(0);
    if is_full { Ok(found) } else { Err(found) }
}

#[tokio::test(start_paused = true)]
async fn a_set_gets_its_pods_and_gives_them_back() {
    let world = World::new();
    world.put(&REPLICA_SETS, set(3));
    let _running = world.run("k3", MAKES);
    world.until(|_| full(&world, 3)).await;
    let pod = &world.api.list::<Pod>()[0];
    assert!(pod.metadata.name.as_ref().unwrap().starts_with("web-"));
    world.api.edit::<ReplicaSet>("shop", "web", |set| {
        set.metadata.generation = Some(2);
        set.spec.replicas = Some(1);
    });
    world.until(|_| full(&world, 1)).await;
    let status = world
        .api
        .get::<ReplicaSet>("shop", "web")
        .unwrap()
        .status
        .unwrap();
    assert_eq!((status.observed_generation, status.conditions), (Some(2), None));
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_is_kept_the_same_way() {
    let world = World::new();
    let mut controller = set(2);
    controller["spec"]["selector"] = json!({"app": "a"});
    world.put(&REPLICATION_CONTROLLERS, controller);
    let _running = world.run("k3", &[replication::make]);
    world
        .until(|api| {
            let status = api.get::<ReplicationController>("shop", "web")?.status?;
            (status.ready_replicas == Some(2) && world.pods() == [("web".to_owned(), 2)].into()).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_strangers_are_let_go() {
    let world = World::new();
    let web = world.put(&REPLICA_SETS, set(2));
    world.put(&PODS, pod("orphan", &json!({"app": "a"}), None));
    world.put(&PODS, pod("stranger", &json!({"app": "b"}), Some(&web)));
    let mut other = web.clone();
    other["metadata"]["uid"] = json!("somebody");
    world.put(&PODS, pod("other", &json!({"app": "a"}), Some(&other)));
    let _running = world.run("k3", MAKES);
    world
        .until(|_| {
            let owner = |name: &str| {
                let pod = world.api.get::<Pod>("shop", name)?;
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
            (owners == expected && world.api.list::<Pod>().len() == 4).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_cannot_be_made_are_told_until_they_can() {
    let world = World::new();
    world.put(&REPLICA_SETS, set(3));
    let create = || Requests::verb("create").of("pods");
    world.api.faults().on(create().after(1), Fault::Status(403));
    let _running = world.run("k3", MAKES);
    let reason = |world: &World| {
        let conditions = world.api.get::<ReplicaSet>("shop", "web")?.status?.conditions?;
        conditions.first().and_then(|condition| condition.reason.clone())
    };
    world
        .until(|_| reason(&world).filter(|reason| reason == "FailedCreate"))
        .await;
    // One in a slow start, then two that are refused; never a third for the same reason.
    let first = world
        .api
        .requests()
        .iter()
        .filter(|request| request.verb == "create")
        .count();
    assert!((2..=3).contains(&first), "{first}");
    world.api.faults().clear();
    world.until(|_| full(&world, 3)).await;
    world.until(|_| reason(&world).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let world = World::new();
    let mut web = set(1);
    web["spec"]["minReadySeconds"] = json!(30);
    world.put(&REPLICA_SETS, web);
    let _running = world.run("k3", MAKES);
    world
        .until(|_| counts(&world).filter(|counts| counts.2 == 1))
        .await;
    assert_eq!(counts(&world).unwrap().3, 0);
    let ready = tokio::time::Instant::now();
    world
        .until(|_| counts(&world).filter(|counts| counts.3 == 1))
        .await;
    let waited = ready.elapsed().as_secs();
    assert!((28..=31).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn many_pods_cost_few_writes_of_the_status() {
    let world = World::new();
    world.put(&REPLICA_SETS, set(600));
    let _running = world.run("k3", MAKES);
    world.until(|_| full(&world, 600)).await;
    let writes = world.api.writes();
    let pods = writes.iter().filter(|write| write.verb == "create").count();
    let status = writes
        .iter()
        .filter(|write| write.subresource == "status")
        .count();
    assert_eq!(pods, 600);
    assert!(status <= 40, "{status}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_all_is_as_it_should_be() {
    let world = World::new();
    world.put(&REPLICA_SETS, set(3));
    let _running = world.run("k3", MAKES);
    world.until(|_| full(&world, 3)).await;
    world.rest(Duration::from_secs(1)).await;
    world.api.forget_requests();
    world.rest(Duration::from_mins(1)).await;
    assert_eq!(world.api.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_set_is_filled_wherever_its_controller_dies() {
    let story = async |world: &World| {
        world.put(&REPLICA_SETS, set(3));
        world.put(&PODS, pod("orphan", &json!({"app": "a"}), None));
    };
    World::survive(story, MAKES, |world| full(world, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_shrinks_wherever_its_controller_dies() {
    let story = async |world: &World| {
        world.put(&REPLICA_SETS, set(5));
        let running = world.run("before", MAKES);
        world.until(|_| full(world, 5)).await;
        drop(running);
        world.put(&REPLICA_SETS, {
            let mut web = set(2);
            web["metadata"]["generation"] = json!(2);
            web
        });
    };
    World::survive(story, MAKES, |world| full(world, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn two_copies_keep_one_set() {
    let world = World::new();
    world.put(&REPLICA_SETS, set(5));
    let found = world.share(MAKES, |world| full(world, 5)).await;
    assert_eq!(found["pods"], json!({"web": 5}));
}
