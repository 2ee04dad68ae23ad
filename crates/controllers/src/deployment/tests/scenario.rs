use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kubecontroller::testing::{Fault, RequestMatcher, eventually};
use serde_json::{Value, json};

use crate::{
    context::{ControllerContext, Task},
    deployment, replicaset,
    resource::{DEPLOYMENTS, REPLICA_SETS},
    testing::{Scenario, TestCluster},
};

fn make(context: &ControllerContext) -> Vec<Task> {
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
fn edit(cluster: &TestCluster, change: impl Fn(&mut k8s_openapi::api::apps::v1::DeploymentSpec)) {
    let is_there = cluster.api.edit::<Deployment>("shop", "web", |web| {
        web.metadata.generation = web.metadata.generation.map(|generation| generation + 1);
        change(&mut web.spec);
    });
    assert!(is_there);
}

fn set_image(cluster: &TestCluster, image: &str) {
    edit(cluster, |spec| {
        let pod = spec.template.spec.as_mut().unwrap();
        pod.containers[0].image = Some(image.to_owned());
    });
}

fn images(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.api.list::<Pod>().into_iter();
    let image = |pod: Pod| pod.spec?.containers[0].image.clone();
    let mut images: Vec<_> = pods.filter_map(image).collect();
    images.sort();
    images
}

fn reason(cluster: &TestCluster, kind: &str) -> Option<String> {
    let conditions = cluster.api.get::<Deployment>("shop", "web")?.status?.conditions?;
    conditions
        .into_iter()
        .find(|condition| condition.type_.as_deref() == Some(kind))?
        .reason
}

/// All pods are of the image and available, and everybody knows; otherwise what there is.
fn complete(cluster: &TestCluster, image: &str, replicas: i32) -> Result<Value, Value> {
    let deployment = cluster.api.get::<Deployment>("shop", "web").unwrap_or_default();
    let status = deployment.status.unwrap_or_default();
    let mut sets: Vec<_> = cluster
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
        "counts": counts, "sets": sets, "images": images(cluster), "progress": reason(cluster, "Progressing"),
        "revision": deployment.metadata.annotations.unwrap_or_default().get("deployment.kubernetes.io/revision"),
    });
    let is_complete = counts == [Some(replicas); 4]
        && status.observed_generation == deployment.metadata.generation
        && status.terminating_replicas == Some(0)
        && reason(cluster, "Progressing").as_deref() == Some("NewReplicaSetAvailable")
        && images(cluster) == vec![image; usize::try_from(replicas).unwrap_or(0)];
    if is_complete { Ok(found) } else { Err(found) }
}

#[tokio::test(start_paused = true)]
async fn rolls_out_updates_and_rolls_back() {
    let cluster = TestCluster::new();
    cluster.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = cluster.start("k3", make);
    let first = cluster.until(|| complete(&cluster, "one", 3)).await;
    assert_eq!(
        (
            first["revision"].as_str(),
            first["sets"].as_array().unwrap().len()
        ),
        (Some("1"), 1)
    );
    set_image(&cluster, "two");
    let second = cluster.until(|| complete(&cluster, "two", 3)).await;
    assert_eq!(
        (
            second["revision"].as_str(),
            second["sets"].as_array().unwrap().len()
        ),
        (Some("2"), 2)
    );
    set_image(&cluster, "one");
    let third = cluster.until(|| complete(&cluster, "one", 3)).await;
    assert_eq!(
        (
            third["revision"].as_str(),
            third["sets"].as_array().unwrap().len()
        ),
        (Some("3"), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn rolling_update_keeps_its_bounds() {
    let cluster = TestCluster::new();
    let bounds = json!({"replicas": 20, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}});
    cluster.put(&DEPLOYMENTS, web("one", 1, &bounds));
    let _running = cluster.start("k3", make);
    cluster.until(|| complete(&cluster, "one", 20)).await;
    set_image(&cluster, "two");
    let check = || {
        let pods = cluster.api.list::<Pod>().into_iter();
        let there: Vec<_> = pods
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect();
        let phase = |pod: &Pod| pod.status.clone().and_then(|status| status.phase);
        let running = there
            .iter()
            .filter(|pod| phase(pod).as_deref() == Some("Running"));
        let there = there.len();
        let running = running.count();
        assert!(there <= 23 && running >= 18, "{running} of {there}");
    };
    eventually(|| {
        check();
        cluster.run_pods(|_| false);
        check();
        let observed = complete(&cluster, "two", 20);
        async move { observed }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn recreate_never_mixes_templates() {
    let cluster = TestCluster::new();
    cluster.put(
        &DEPLOYMENTS,
        web("one", 1, &json!({"strategy": {"type": "Recreate"}})),
    );
    let _running = cluster.start("k3", make);
    cluster.until(|| complete(&cluster, "one", 3)).await;
    set_image(&cluster, "two");
    cluster
        .until(|| {
            let mut images = images(&cluster);
            images.dedup();
            assert!(images.len() <= 1, "{images:?}");
            complete(&cluster, "two", 3)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn scales_pauses_and_resumes() {
    let cluster = TestCluster::new();
    cluster.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = cluster.start("k3", make);
    cluster.until(|| complete(&cluster, "one", 3)).await;
    edit(&cluster, |spec| spec.replicas = Some(5));
    cluster.until(|| complete(&cluster, "one", 5)).await;
    edit(&cluster, |spec| spec.paused = Some(true));
    set_image(&cluster, "two");
    cluster
        .until(|| reason(&cluster, "Progressing").filter(|reason| reason == "DeploymentPaused"))
        .await;
    cluster.rest(Duration::from_secs(5)).await;
    assert_eq!(images(&cluster), ["one"; 5]);
    edit(&cluster, |spec| spec.paused = None);
    cluster.until(|| complete(&cluster, "two", 5)).await;
}

#[tokio::test(start_paused = true)]
async fn stuck_rollout_times_out_and_recovers() {
    let cluster = TestCluster::new();
    cluster.put(
        &DEPLOYMENTS,
        web("one", 1, &json!({"progressDeadlineSeconds": 20})),
    );
    let _running = cluster.start("k3", make);
    let look = || {
        let observed = reason(&cluster, "Progressing").filter(|reason| reason == "ProgressDeadlineExceeded");
        async move { observed }
    };
    eventually(look).await;
    assert_eq!(
        reason(&cluster, "Available").as_deref(),
        Some("MinimumReplicasUnavailable")
    );
    cluster.until(|| complete(&cluster, "one", 3)).await;
    assert_eq!(
        reason(&cluster, "Available").as_deref(),
        Some("MinimumReplicasAvailable")
    );
}

#[tokio::test(start_paused = true)]
async fn counts_and_avoids_hash_collisions() {
    let cluster = TestCluster::new();
    cluster.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let names = || {
        cluster
            .api
            .list::<ReplicaSet>()
            .into_iter()
            .filter_map(|set| set.metadata.name)
            .collect::<Vec<_>>()
    };
    let running = cluster.start("k3", make);
    cluster.until(|| complete(&cluster, "one", 3)).await;
    drop(running);
    let taken = names().remove(0);
    let cluster = TestCluster::new();
    cluster.put(
        &REPLICA_SETS,
        json!({
            "metadata": {"name": taken, "namespace": "shop", "labels": {"other": "x"}},
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"other": "x"}},
                "template": {"metadata": {"labels": {"other": "x"}}, "spec": {"containers": []}},
            },
        }),
    );
    cluster.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    let _running = cluster.start("k3", make);
    cluster.until(|| complete(&cluster, "one", 3)).await;
    let status = cluster
        .api
        .get::<Deployment>("shop", "web")
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.collision_count, Some(1));
}

#[tokio::test(start_paused = true)]
async fn reports_failed_replica_set_creation() {
    let cluster = TestCluster::new();
    cluster.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    cluster.api.faults().on(
        RequestMatcher::verb("create").resource("replicasets"),
        Fault::Status(403),
    );
    let _running = cluster.start("k3", make);
    cluster
        .until(|| reason(&cluster, "Progressing").filter(|reason| reason == "ReplicaSetCreateError"))
        .await;
    cluster.api.faults().clear();
    cluster.until(|| complete(&cluster, "one", 3)).await;
}

#[tokio::test(start_paused = true)]
async fn limits_history_and_stays_idle() {
    let cluster = TestCluster::new();
    cluster.put(&DEPLOYMENTS, web("one", 1, &json!({"revisionHistoryLimit": 1})));
    let _running = cluster.start("k3", make);
    for image in ["one", "two", "three", "four"] {
        set_image(&cluster, image);
        cluster.until(|| complete(&cluster, image, 3)).await;
    }
    cluster
        .until(|| cluster.api.list::<ReplicaSet>().len() == 2)
        .await;
    cluster.rest(Duration::from_secs(1)).await;
    cluster.api.clear_requests();
    cluster.rest(Duration::from_mins(1)).await;
    assert_eq!(cluster.api.writes().len(), 0);
}

/// A deployment starts.
const UP: Scenario = Scenario {
    make,
    setup: |cluster| {
        cluster.put(&DEPLOYMENTS, web("one", 1, &json!({})));
    },
    play: |cluster| cluster.run_pods(|_| false),
    end: |cluster| complete(cluster, "one", 3).ok(),
};

/// It starts, and is changed then; old sets are kept.
const CHANGED: Scenario = Scenario {
    setup: |cluster| {
        cluster.put(&DEPLOYMENTS, web("one", 1, &json!({"replicas": 2})));
    },
    play: |cluster| {
        cluster.run_pods(|_| false);
        if complete(cluster, "one", 2).is_ok() {
            set_image(cluster, "two");
        }
    },
    end: |cluster| complete(cluster, "two", 2).ok(),
    ..UP
};

/// The same, and no old set is kept.
const FORGOTTEN: Scenario = Scenario {
    setup: |cluster| {
        let few = json!({"replicas": 2, "revisionHistoryLimit": 0});
        cluster.put(&DEPLOYMENTS, web("one", 1, &few));
    },
    end: |cluster| {
        let is_alone = cluster.api.list::<ReplicaSet>().len() == 1;
        complete(cluster, "two", 2).ok().filter(|_| is_alone)
    },
    ..CHANGED
};

#[tokio::test(start_paused = true)]
async fn deployment_starts_despite_crashes() {
    UP.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn rollout_completes_despite_crashes() {
    FORGOTTEN.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_roll_out_one_deployment() {
    UP.survives_copies().await;
    CHANGED.survives_copies().await;
    let (end, _) = CHANGED.run().await;
    assert_eq!(end["sets"].as_array().unwrap().len(), 2);
}
