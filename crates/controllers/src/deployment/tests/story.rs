use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kubecontroller::testing::{Fault, Requests, eventually};
use serde_json::{Value, json};

use crate::{
    deployment, replicaset,
    resource::{DEPLOYMENTS, REPLICA_SETS},
    testing::{Make, World},
};

const MAKES: &[Make] = &[deployment::make, replicaset::make];

fn web(image: &str, generation: i64, more: &Value) -> Value {
    let mut web = json!({
        "metadata": {"name": "web", "namespace": "shop", "generation": generation},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "a"}},
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        web["spec"][name] = value.clone();
    }
    web
}

/// Changes the spec of the deployment, as a client does.
fn edit(world: &World, change: impl Fn(&mut k8s_openapi::api::apps::v1::DeploymentSpec)) {
    let is_there = world.api.edit::<Deployment>("shop", "web", |web| {
        web.metadata.generation = web.metadata.generation.map(|generation| generation + 1);
        change(&mut web.spec);
    });
    assert!(is_there);
}

fn set_image(world: &World, image: &str) {
    edit(world, |spec| {
        let pod = spec.template.spec.as_mut().unwrap();
        pod.containers[0].image = Some(image.to_owned());
    });
}

fn images(world: &World) -> Vec<String> {
    let pods = world.api.list::<Pod>().into_iter();
    let image = |pod: Pod| pod.spec?.containers[0].image.clone();
    let mut images: Vec<_> = pods.filter_map(image).collect();
    images.sort();
    images
}

fn reason(world: &World, kind: &str) -> Option<String> {
    let conditions = world.api.get::<Deployment>("shop", "web")?.status?.conditions?;
    conditions
        .into_iter()
        .find(|condition| condition.type_.as_deref() == Some(kind))?
        .reason
}

/// All pods are of the image and available, and everybody knows; otherwise what there is.
fn complete(world: &World, image: &str, replicas: i32) -> Result<Value, Value> {
    let deployment = world.api.get::<Deployment>("shop", "web").unwrap_or_default();
    let status = deployment.status.unwrap_or_default();
    let mut sets: Vec<_> = world
        .api
        .list::<ReplicaSet>()
        .into_iter()
        .map(|set| {
            let revision = set
                .metadata
                .annotations
                .unwrap_or_default()
                .remove("deployment.kubernetes.io/revision");
            let replicas = set.status.unwrap_or_default().replicas;
            json!([set.metadata.name, revision, set.spec.replicas, replicas])
        })
        .collect();
    sets.sort_by_key(Value::to_string);
    let counts = [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    ];
    let found = json!({
        "counts": counts, "sets": sets, "images": images(world), "progress": reason(world, "Progressing"),
        "revision": deployment.metadata.annotations.unwrap_or_default().get("deployment.kubernetes.io/revision"),
    });
    let is_complete = counts == [Some(replicas); 4]
        && status.observed_generation == deployment.metadata.generation
        && status.terminating_replicas == Some(0)
        && reason(world, "Progressing").as_deref() == Some("NewReplicaSetAvailable")
        && images(world) == vec![image; usize::try_from(replicas).unwrap_or(0)];
    if is_complete { Ok(found) } else { Err(found) }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_rolled_out_changed_and_taken_back() {
    let world = World::new();
    world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = world.run("k3", MAKES);
    let first = world.until(|_| complete(&world, "one", 3)).await;
    assert_eq!(
        (
            first["revision"].as_str(),
            first["sets"].as_array().unwrap().len()
        ),
        (Some("1"), 1)
    );
    set_image(&world, "two");
    let second = world.until(|_| complete(&world, "two", 3)).await;
    assert_eq!(
        (
            second["revision"].as_str(),
            second["sets"].as_array().unwrap().len()
        ),
        (Some("2"), 2)
    );
    set_image(&world, "one");
    let third = world.until(|_| complete(&world, "one", 3)).await;
    assert_eq!(
        (
            third["revision"].as_str(),
            third["sets"].as_array().unwrap().len()
        ),
        (Some("3"), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_its_bounds_at_every_moment() {
    let world = World::new();
    let bounds = json!({"replicas": 20, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}});
    world.put(&DEPLOYMENTS, web("one", 1, &bounds));
    let _running = world.run("k3", MAKES);
    world.until(|_| complete(&world, "one", 20)).await;
    set_image(&world, "two");
    let check = || {
        let pods = world.api.list::<Pod>().into_iter();
        let there: Vec<_> = pods
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect();
        let phase = |pod: &Pod| pod.status.clone().and_then(|status| status.phase);
        let running = there
            .iter()
            .filter(|pod| phase(pod).as_deref() == Some("Running"));
        let (there, running) = (there.len(), running.count());
        assert!(there <= 23 && running >= 18, "{running} of {there}");
    };
    eventually(|| {
        check();
        world.run_pods(|_| false);
        check();
        let seen = complete(&world, "two", 20);
        async move { seen }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn recreation_leaves_no_two_templates_beside_each_other() {
    let world = World::new();
    world.put(
        &DEPLOYMENTS,
        web("one", 1, &json!({"strategy": {"type": "Recreate"}})),
    );
    let _running = world.run("k3", MAKES);
    world.until(|_| complete(&world, "one", 3)).await;
    set_image(&world, "two");
    world
        .until(|_| {
            let mut images = images(&world);
            images.dedup();
            assert!(images.len() <= 1, "{images:?}");
            complete(&world, "two", 3)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_paused_and_resumed() {
    let world = World::new();
    world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = world.run("k3", MAKES);
    world.until(|_| complete(&world, "one", 3)).await;
    edit(&world, |spec| spec.replicas = Some(5));
    world.until(|_| complete(&world, "one", 5)).await;
    edit(&world, |spec| spec.paused = Some(true));
    set_image(&world, "two");
    world
        .until(|_| reason(&world, "Progressing").filter(|reason| reason == "DeploymentPaused"))
        .await;
    world.rest(Duration::from_secs(5)).await;
    assert_eq!(images(&world), ["one"; 5]);
    edit(&world, |spec| spec.paused = None);
    world.until(|_| complete(&world, "two", 5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_gets_nowhere_times_out_and_recovers() {
    let world = World::new();
    world.put(
        &DEPLOYMENTS,
        web("one", 1, &json!({"progressDeadlineSeconds": 20})),
    );
    let _running = world.run("k3", MAKES);
    let look = || {
        let seen = reason(&world, "Progressing").filter(|reason| reason == "ProgressDeadlineExceeded");
        async move { seen }
    };
    eventually(look).await;
    assert_eq!(
        reason(&world, "Available").as_deref(),
        Some("MinimumReplicasUnavailable")
    );
    world.until(|_| complete(&world, "one", 3)).await;
    assert_eq!(
        reason(&world, "Available").as_deref(),
        Some("MinimumReplicasAvailable")
    );
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_is_taken_is_counted_and_avoided() {
    let world = World::new();
    world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let names = || {
        world
            .api
            .list::<ReplicaSet>()
            .into_iter()
            .filter_map(|set| set.metadata.name)
            .collect::<Vec<_>>()
    };
    let running = world.run("k3", MAKES);
    world.until(|_| complete(&world, "one", 3)).await;
    drop(running);
    let taken = names().remove(0);
    let world = World::new();
    world.put(
        &REPLICA_SETS,
        json!({
            "metadata": {"name": taken, "namespace": "shop", "labels": {"other": "x"}},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"other": "x"}},
                "template": {"metadata": {"labels": {"other": "x"}}, "spec": {"containers": []}},
            },
        }),
    );
    world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = world.run("k3", MAKES);
    world.until(|_| complete(&world, "one", 3)).await;
    let status = world
        .api
        .get::<Deployment>("shop", "web")
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.collision_count, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_cannot_be_made_is_told() {
    let world = World::new();
    world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    world
        .api
        .faults()
        .on(Requests::verb("create").of("replicasets"), Fault::Status(403));
    let _running = world.run("k3", MAKES);
    world
        .until(|_| reason(&world, "Progressing").filter(|reason| reason == "ReplicaSetCreateError"))
        .await;
    world.api.faults().clear();
    world.until(|_| complete(&world, "one", 3)).await;
}

#[tokio::test(start_paused = true)]
async fn history_is_limited_and_rest_is_silent() {
    let world = World::new();
    world.put(&DEPLOYMENTS, web("one", 1, &json!({"revisionHistoryLimit": 1})));
    let _running = world.run("k3", MAKES);
    for image in ["one", "two", "three", "four"] {
        set_image(&world, image);
        world.until(|_| complete(&world, image, 3)).await;
    }
    world.until(|api| api.list::<ReplicaSet>().len() == 2).await;
    world.rest(Duration::from_secs(1)).await;
    world.api.forget_requests();
    world.rest(Duration::from_mins(1)).await;
    assert_eq!(world.api.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_wherever_its_controllers_die() {
    let story = async |world: &World| {
        world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    };
    World::survive(story, MAKES, |world| complete(world, "one", 3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_ends_wherever_its_controllers_die() {
    let story = async |world: &World| {
        world.put(
            &DEPLOYMENTS,
            web("one", 1, &json!({"replicas": 2, "revisionHistoryLimit": 0})),
        );
        let running = world.run("before", MAKES);
        world.until(|_| complete(world, "one", 2)).await;
        drop(running);
        set_image(world, "two");
    };
    World::survive(story, MAKES, |world| {
        let sets = world.api.list::<ReplicaSet>().len();
        complete(world, "two", 2).and_then(|found| if sets == 1 { Ok(found) } else { Err(found) })
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_copies_roll_out_one_deployment() {
    let world = World::new();
    world.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    world.share(MAKES, |world| complete(world, "one", 3)).await;
    set_image(&world, "two");
    let found = world.share(MAKES, |world| complete(world, "two", 3)).await;
    assert_eq!(found["sets"].as_array().unwrap().len(), 2);
}
