use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kubecontroller::testing::{Fault, RequestMatcher, eventually};
use serde_json::{Value, json};

use crate::{
    context::{Context, Task},
    deployment, replicaset,
    resource::{DEPLOYMENTS, REPLICA_SETS},
    testing::{Stage, Story},
};

fn make(context: &Context) -> Vec<Task> {
    let mut tasks = deployment::make(context);
    tasks.extend(replicaset::make(context));
    tasks
}

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
fn edit(stage: &Stage, change: impl Fn(&mut k8s_openapi::api::apps::v1::DeploymentSpec)) {
    let is_there = stage.api.edit::<Deployment>("shop", "web", |web| {
        web.metadata.generation = web.metadata.generation.map(|generation| generation + 1);
        change(&mut web.spec);
    });
    assert!(is_there);
}

fn set_image(stage: &Stage, image: &str) {
    edit(stage, |spec| {
        let pod = spec.template.spec.as_mut().unwrap();
        pod.containers[0].image = Some(image.to_owned());
    });
}

fn images(stage: &Stage) -> Vec<String> {
    let pods = stage.api.list::<Pod>().into_iter();
    let image = |pod: Pod| pod.spec?.containers[0].image.clone();
    let mut images: Vec<_> = pods.filter_map(image).collect();
    images.sort();
    images
}

fn reason(stage: &Stage, kind: &str) -> Option<String> {
    let conditions = stage.api.get::<Deployment>("shop", "web")?.status?.conditions?;
    conditions
        .into_iter()
        .find(|condition| condition.type_.as_deref() == Some(kind))?
        .reason
}

/// All pods are of the image and available, and everybody knows; otherwise what there is.
fn complete(stage: &Stage, image: &str, replicas: i32) -> Result<Value, Value> {
    let deployment = stage.api.get::<Deployment>("shop", "web").unwrap_or_default();
    let status = deployment.status.unwrap_or_default();
    let mut sets: Vec<_> = stage
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
        "counts": counts, "sets": sets, "images": images(stage), "progress": reason(stage, "Progressing"),
        "revision": deployment.metadata.annotations.unwrap_or_default().get("deployment.kubernetes.io/revision"),
    });
    let is_complete = counts == [Some(replicas); 4]
        && status.observed_generation == deployment.metadata.generation
        && status.terminating_replicas == Some(0)
        && reason(stage, "Progressing").as_deref() == Some("NewReplicaSetAvailable")
        && images(stage) == vec![image; usize::try_from(replicas).unwrap_or(0)];
    if is_complete { Ok(found) } else { Err(found) }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_rolled_out_changed_and_taken_back() {
    let stage = Stage::new();
    stage.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = stage.start("k3", make);
    let first = stage.until(|| complete(&stage, "one", 3)).await;
    assert_eq!(
        (
            first["revision"].as_str(),
            first["sets"].as_array().unwrap().len()
        ),
        (Some("1"), 1)
    );
    set_image(&stage, "two");
    let second = stage.until(|| complete(&stage, "two", 3)).await;
    assert_eq!(
        (
            second["revision"].as_str(),
            second["sets"].as_array().unwrap().len()
        ),
        (Some("2"), 2)
    );
    set_image(&stage, "one");
    let third = stage.until(|| complete(&stage, "one", 3)).await;
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
    let stage = Stage::new();
    let bounds = json!({"replicas": 20, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}});
    stage.put(&DEPLOYMENTS, web("one", 1, &bounds));
    let _running = stage.start("k3", make);
    stage.until(|| complete(&stage, "one", 20)).await;
    set_image(&stage, "two");
    let check = || {
        let pods = stage.api.list::<Pod>().into_iter();
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
        stage.run_pods(|_| false);
        check();
        let seen = complete(&stage, "two", 20);
        async move { seen }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn recreation_leaves_no_two_templates_beside_each_other() {
    let stage = Stage::new();
    stage.put(
        &DEPLOYMENTS,
        web("one", 1, &json!({"strategy": {"type": "Recreate"}})),
    );
    let _running = stage.start("k3", make);
    stage.until(|| complete(&stage, "one", 3)).await;
    set_image(&stage, "two");
    stage
        .until(|| {
            let mut images = images(&stage);
            images.dedup();
            assert!(images.len() <= 1, "{images:?}");
            complete(&stage, "two", 3)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_paused_and_resumed() {
    let stage = Stage::new();
    stage.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = stage.start("k3", make);
    stage.until(|| complete(&stage, "one", 3)).await;
    edit(&stage, |spec| spec.replicas = Some(5));
    stage.until(|| complete(&stage, "one", 5)).await;
    edit(&stage, |spec| spec.paused = Some(true));
    set_image(&stage, "two");
    stage
        .until(|| reason(&stage, "Progressing").filter(|reason| reason == "DeploymentPaused"))
        .await;
    stage.rest(Duration::from_secs(5)).await;
    assert_eq!(images(&stage), ["one"; 5]);
    edit(&stage, |spec| spec.paused = None);
    stage.until(|| complete(&stage, "two", 5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_gets_nowhere_times_out_and_recovers() {
    let stage = Stage::new();
    stage.put(
        &DEPLOYMENTS,
        web("one", 1, &json!({"progressDeadlineSeconds": 20})),
    );
    let _running = stage.start("k3", make);
    let look = || {
        let seen = reason(&stage, "Progressing").filter(|reason| reason == "ProgressDeadlineExceeded");
        async move { seen }
    };
    eventually(look).await;
    assert_eq!(
        reason(&stage, "Available").as_deref(),
        Some("MinimumReplicasUnavailable")
    );
    stage.until(|| complete(&stage, "one", 3)).await;
    assert_eq!(
        reason(&stage, "Available").as_deref(),
        Some("MinimumReplicasAvailable")
    );
}

#[tokio::test(start_paused = true)]
async fn a_hash_that_is_taken_is_counted_and_avoided() {
    let stage = Stage::new();
    stage.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let names = || {
        stage
            .api
            .list::<ReplicaSet>()
            .into_iter()
            .filter_map(|set| set.metadata.name)
            .collect::<Vec<_>>()
    };
    let running = stage.start("k3", make);
    stage.until(|| complete(&stage, "one", 3)).await;
    drop(running);
    let taken = names().remove(0);
    let stage = Stage::new();
    stage.put(
        &REPLICA_SETS,
        json!({
            "metadata": {"name": taken, "namespace": "shop", "labels": {"other": "x"}},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"other": "x"}},
                "template": {"metadata": {"labels": {"other": "x"}}, "spec": {"containers": []}},
            },
        }),
    );
    stage.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = stage.start("k3", make);
    stage.until(|| complete(&stage, "one", 3)).await;
    let status = stage
        .api
        .get::<Deployment>("shop", "web")
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.collision_count, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_cannot_be_made_is_told() {
    let stage = Stage::new();
    stage.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    stage.api.faults().on(
        RequestMatcher::verb("create").resource("replicasets"),
        Fault::Status(403),
    );
    let _running = stage.start("k3", make);
    stage
        .until(|| reason(&stage, "Progressing").filter(|reason| reason == "ReplicaSetCreateError"))
        .await;
    stage.api.faults().clear();
    stage.until(|| complete(&stage, "one", 3)).await;
}

#[tokio::test(start_paused = true)]
async fn history_is_limited_and_rest_is_silent() {
    let stage = Stage::new();
    stage.put(&DEPLOYMENTS, web("one", 1, &json!({"revisionHistoryLimit": 1})));
    let _running = stage.start("k3", make);
    for image in ["one", "two", "three", "four"] {
        set_image(&stage, image);
        stage.until(|| complete(&stage, image, 3)).await;
    }
    stage.until(|| stage.api.list::<ReplicaSet>().len() == 2).await;
    stage.rest(Duration::from_secs(1)).await;
    stage.api.clear_requests();
    stage.rest(Duration::from_mins(1)).await;
    assert_eq!(stage.api.writes().len(), 0);
}

/// A deployment comes up.
const UP: Story = Story {
    make,
    setup: |stage| {
        stage.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    },
    play: |stage| stage.run_pods(|_| false),
    end: |stage| complete(stage, "one", 3).ok(),
};

/// It comes up, and is changed then; old sets are kept.
const CHANGED: Story = Story {
    setup: |stage| {
        stage.put(&DEPLOYMENTS, web("one", 1, &json!({"replicas": 2})));
    },
    play: |stage| {
        stage.run_pods(|_| false);
        if complete(stage, "one", 2).is_ok() {
            set_image(stage, "two");
        }
    },
    end: |stage| complete(stage, "two", 2).ok(),
    ..UP
};

/// The same, and no old set is kept.
const FORGOTTEN: Story = Story {
    setup: |stage| {
        let few = json!({"replicas": 2, "revisionHistoryLimit": 0});
        stage.put(&DEPLOYMENTS, web("one", 1, &few));
    },
    end: |stage| {
        let is_alone = stage.api.list::<ReplicaSet>().len() == 1;
        complete(stage, "two", 2).ok().filter(|_| is_alone)
    },
    ..CHANGED
};

#[tokio::test(start_paused = true)]
async fn a_deployment_comes_up_wherever_its_controllers_die() {
    UP.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_ends_wherever_its_controllers_die() {
    FORGOTTEN.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_copies_roll_out_one_deployment() {
    UP.survives_copies().await;
    CHANGED.survives_copies().await;
    let (end, _) = CHANGED.run().await;
    assert_eq!(end["sets"].as_array().unwrap().len(), 2);
}
