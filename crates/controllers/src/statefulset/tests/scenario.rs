use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{Event, PersistentVolumeClaim, Pod},
};
use kubecontroller::testing::{eventually, eventually_within};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    resource::{CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS},
    statefulset::make,
    testing::{Scenario, TestCluster},
};

fn put_set(cluster: &TestCluster, more: &Value) {
    let mut set = json!({
        "metadata": {"name": "db", "namespace": "shop", "generation": 1, "annotations": {"why": "test"}},
        "spec": {
            "replicas": 2,
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "a"}},
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "one"}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
        },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        set["spec"][name] = value.clone();
    }
    cluster.put(&STATEFUL_SETS, set);
}

fn set(cluster: &TestCluster) -> Value {
    let set = cluster.api.get::<StatefulSet>("shop", "db");
    serde_json::to_value(set).unwrap()
}

/// Changes the spec, as a client does.
fn edit(cluster: &TestCluster, change: impl FnOnce(&mut Value)) {
    let mut set = set(cluster);
    set["metadata"]["generation"] = (set["metadata"]["generation"].as_i64().unwrap() + 1).into();
    change(&mut set["spec"]);
    cluster.put(&STATEFUL_SETS, set);
}

fn set_image(spec: &mut Value, image: &str) {
    spec["template"]["spec"]["containers"][0]["image"] = image.into();
}

/// The pods with their images.
fn images(cluster: &TestCluster) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = cluster.pods().into_iter();
    pods.map(|pod| {
        (
            text(&pod["metadata"]["name"]),
            text(&pod["spec"]["containers"][0]["image"]),
        )
    })
    .collect()
}

fn revisions(cluster: &TestCluster) -> Vec<i64> {
    let revisions = cluster.api.list::<ControllerRevision>().into_iter();
    let mut numbers: Vec<_> = revisions.filter_map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    numbers
}

/// What there is when all pods are of an image and ready, and everybody knows.
fn complete(cluster: &TestCluster, image: &str) -> Option<Value> {
    let set = set(cluster);
    let status = &set["status"];
    let replicas = &set["spec"]["replicas"];
    let counts = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "currentReplicas",
        "updatedReplicas",
    ];
    let is_full = counts.iter().all(|count| status[count] == *replicas);
    let is_seen = status["observedGeneration"] == set["metadata"]["generation"];
    let images = images(cluster);
    let is_image = images.iter().all(|(_, of)| of == image);
    if !is_full || !is_seen || !is_image || status["currentRevision"] != status["updateRevision"] {
        return None;
    }
    let claims = cluster.api.list::<PersistentVolumeClaim>().into_iter();
    let claims = claims.map(|claim| {
        let owners = claim.metadata.owner_references.into_iter().flatten();
        let owners: Vec<_> = owners.map(|owner| owner.kind).collect();
        json!([claim.metadata.name, claim.metadata.labels, owners])
    });
    Some(json!({
        "images": images, "revisions": revisions(cluster), "claims": claims.collect::<Vec<_>>(),
        "revision": status["updateRevision"], "collisions": status["collisionCount"],
    }))
}

/// A set starts, is rolled over to another image, and gets smaller.
const ROLLED: Scenario = Scenario {
    make,
    setup: |cluster| {
        put_set(
            cluster,
            &json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}),
        );
    },
    play: |cluster| {
        cluster.run_pods(|_| false);
        match set(cluster)["metadata"]["generation"].as_i64() {
            Some(1) if complete(cluster, "one").is_some() => edit(cluster, |spec| set_image(spec, "two")),
            Some(2) if complete(cluster, "two").is_some() => {
                edit(cluster, |spec| spec["replicas"] = 1.into());
            }
            _ => {}
        }
    },
    end: |cluster| complete(cluster, "two").filter(|_| set(cluster)["metadata"]["generation"] == 3),
};

/// The same with pods that do not wait for each other.
const PARALLEL: Scenario = Scenario {
    make,
    setup: |cluster| {
        let bounds = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}});
        put_set(
            cluster,
            &json!({"podManagementPolicy": "Parallel", "replicas": 3, "updateStrategy": bounds, "revisionHistoryLimit": 0}),
        );
    },
    play: |cluster| {
        cluster.run_pods(|_| false);
        if set(cluster)["metadata"]["generation"] == 1 && complete(cluster, "one").is_some() {
            edit(cluster, |spec| set_image(spec, "two"));
        }
    },
    end: |cluster| complete(cluster, "two").filter(|_| revisions(cluster).len() == 1),
};

async fn until(cluster: &TestCluster, image: &str) -> Value {
    eventually_within(Duration::from_mins(5), || async {
        cluster.run_pods(|_| false);
        complete(cluster, image)
    })
    .await
}

async fn rest(cluster: &TestCluster, turns: u32) {
    for _ in 0..turns {
        cluster.run_pods(|_| false);
        sleep(Duration::from_millis(250)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn starts_updates_and_scales_down() {
    let (end, writes) = ROLLED.run().await;
    assert_eq!(end["images"], json!([["db-0", "two"]]));
    assert_eq!(
        end["claims"],
        json!([
            ["data-db-0", {"app": "a"}, ["StatefulSet"]],
            ["data-db-1", {"app": "a"}, ["StatefulSet"]],
        ])
    );
    assert_eq!(
        (&end["revisions"], &end["collisions"]),
        (&json!([1, 2]), &json!(0))
    );
    assert!(writes < 40, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn survives_crashes_between_writes() {
    ROLLED.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn parallel_set_survives_crashes() {
    PARALLEL.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_behave_as_one() {
    for story in [ROLLED, PARALLEL] {
        story.survives_copies().await;
    }
}

#[tokio::test(start_paused = true)]
async fn rolls_back_to_an_earlier_revision() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({}));
    let _running = cluster.start("one", make);
    let first = until(&cluster, "one").await;
    edit(&cluster, |spec| set_image(spec, "two"));
    until(&cluster, "two").await;
    edit(&cluster, |spec| set_image(spec, "one"));
    let third = until(&cluster, "one").await;
    assert_eq!(first["revision"], third["revision"]);
    assert_eq!(third["revisions"], json!([2, 3]));
    cluster.api.clear_requests();
    rest(&cluster, 240).await;
    assert_eq!(cluster.api.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn rolling_update_keeps_its_bounds() {
    for policy in ["OrderedReady", "Parallel"] {
        let cluster = TestCluster::new();
        let bounds = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}});
        put_set(
            &cluster,
            &json!({"podManagementPolicy": policy, "replicas": 5, "updateStrategy": bounds}),
        );
        let _running = cluster.start("one", make);
        until(&cluster, "one").await;
        edit(&cluster, |spec| set_image(spec, "two"));
        let check = || {
            let stays = |pod: &&Value| {
                pod["metadata"].get("deletionTimestamp").is_none() && pod["status"]["phase"] == "Running"
            };
            let ready = cluster.pods().iter().filter(stays).count();
            assert!(ready >= 3, "{policy}: {ready}");
        };
        eventually_within(Duration::from_mins(5), || async {
            check();
            cluster.run_pods(|_| false);
            check();
            complete(&cluster, "two")
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn keeps_pods_below_the_partition() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({}));
    let _running = cluster.start("one", make);
    until(&cluster, "one").await;
    edit(&cluster, |spec| {
        set_image(spec, "two");
        spec["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    });
    rest(&cluster, 20).await;
    let split = vec![
        ("db-0".to_owned(), "one".to_owned()),
        ("db-1".to_owned(), "two".to_owned()),
    ];
    assert_eq!(images(&cluster), split);
    // One that is deleted comes again as it was.
    cluster.api.remove::<Pod>("shop", "db-0");
    rest(&cluster, 20).await;
    assert_eq!(images(&cluster), split);
    let status = &set(&cluster)["status"];
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(1), &json!(1))
    );
    assert_ne!(status["currentRevision"], status["updateRevision"]);
}

#[tokio::test(start_paused = true)]
async fn recreates_a_failed_pod_with_its_claim() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({}));
    let _running = cluster.start("one", make);
    until(&cluster, "one").await;
    let mut pod = cluster.pods().remove(0);
    let uid = pod["metadata"]["uid"].clone();
    pod["status"] = json!({"phase": "Failed"});
    cluster.put(&PODS, pod);
    rest(&cluster, 8).await;
    until(&cluster, "one").await;
    let requeue_after = cluster.pods().remove(0);
    assert_eq!(requeue_after["metadata"]["name"], "db-0");
    assert_ne!(requeue_after["metadata"]["uid"], uid);
    assert_eq!(
        requeue_after["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}])
    );
    assert_eq!(cluster.api.list::<PersistentVolumeClaim>().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn deletes_claims_of_scaled_down_pods() {
    let cluster = TestCluster::new();
    cluster.api.collect_garbage();
    let policy =
        json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}});
    put_set(&cluster, &policy);
    let _running = cluster.start("one", make);
    until(&cluster, "one").await;
    edit(&cluster, |spec| spec["replicas"] = 1.into());
    until(&cluster, "one").await;
    let names = || {
        let claims = cluster.api.list::<PersistentVolumeClaim>().into_iter();
        claims.filter_map(|claim| claim.metadata.name).collect::<Vec<_>>()
    };
    eventually(|| async { names() == ["data-db-0"] }).await;
    edit(&cluster, |spec| spec["replicas"] = 2.into());
    until(&cluster, "one").await;
    assert_eq!(names(), ["data-db-0", "data-db-1"]);
}

#[tokio::test(start_paused = true)]
async fn pod_waits_for_claim_deletion() {
    let cluster = TestCluster::new();
    let policy = json!({"replicas": 1, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}});
    put_set(&cluster, &policy);
    let left =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "before", "controller": true});
    cluster.put(
        &PERSISTENT_VOLUME_CLAIMS,
        json!({"metadata": {"name": "data-db-0", "namespace": "shop", "ownerReferences": [left]}, "spec": {}}),
    );
    let _running = cluster.start("one", make);
    rest(&cluster, 20).await;
    assert!(cluster.pods().is_empty());
    cluster.api.remove::<PersistentVolumeClaim>("shop", "data-db-0");
    until(&cluster, "one").await;
}

#[tokio::test(start_paused = true)]
async fn adopts_matching_pods_and_releases_others() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({"volumeClaimTemplates": []}));
    let orphan_pod = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "one"}]},
            "status": {"phase": "Pending"}})
    };
    cluster.put(&PODS, orphan_pod("db-0"));
    cluster.put(&PODS, orphan_pod("other-0"));
    let _running = cluster.start("one", make);
    let owned = |pod: &str| {
        let pod = cluster.api.get::<Pod>("shop", pod);
        pod.is_some_and(|pod| {
            pod.metadata
                .owner_references
                .is_some_and(|owners| !owners.is_empty())
        })
    };
    eventually(|| async { owned("db-0") }).await;
    assert!(!owned("other-0"));
    // It is of no revision, and so replaced; and then it has its label.
    eventually_within(Duration::from_mins(5), || async {
        cluster.run_pods(|_| false);
        let pod = cluster.api.get::<Pod>("shop", "db-0")?;
        let label = pod
            .metadata
            .labels?
            .remove("statefulset.kubernetes.io/pod-name")?;
        (label == "db-0").then_some(())
    })
    .await;
    let mut pod = cluster.pods().remove(0);
    pod["metadata"]["labels"] = json!({"app": "b"});
    cluster.put(&PODS, pod);
    eventually(|| async { !owned("db-0") }).await;
}

fn disown(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("ownerReferences");
}

#[tokio::test(start_paused = true)]
async fn recreated_set_adopts_existing_pods() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({}));
    let running = cluster.start("one", make);
    let first = until(&cluster, "one").await;
    drop(running);
    // As a garbage collector leaves orphans.
    for mut pod in cluster.pods() {
        disown(&mut pod);
        cluster.put(&PODS, pod);
    }
    for revision in cluster.api.list::<ControllerRevision>() {
        let mut revision = serde_json::to_value(revision).unwrap();
        disown(&mut revision);
        cluster.put(&CONTROLLER_REVISIONS, revision);
    }
    cluster.api.remove::<StatefulSet>("shop", "db");
    put_set(&cluster, &json!({}));
    let uids = || {
        let uids = cluster
            .pods()
            .into_iter()
            .map(|pod| pod["metadata"]["uid"].clone());
        uids.collect::<Vec<_>>()
    };
    let before = uids();
    let _running = cluster.start("two", make);
    assert_eq!(until(&cluster, "one").await, first);
    assert_eq!(uids(), before);
    let owner = set(&cluster)["metadata"]["uid"].clone();
    for pod in cluster.pods() {
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], owner);
    }
}

#[tokio::test(start_paused = true)]
async fn records_events() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({"replicas": 1}));
    let _running = cluster.start("one", make);
    until(&cluster, "one").await;
    edit(&cluster, |spec| spec["replicas"] = 0.into());
    let reported = eventually_within(Duration::from_mins(5), || async {
        cluster.run_pods(|_| false);
        let events = cluster.api.list::<Event>().into_iter();
        let mut reported: Vec<_> = events
            .filter_map(|event| Some((event.reason?, event.message?)))
            .collect();
        reported.sort();
        (reported.len() == 3).then_some(reported)
    });
    let expectations = [
        (
            "SuccessfulCreate",
            "Create Claim data-db-0 Pod db-0 in StatefulSet db success",
        ),
        ("SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
        ("SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful"),
    ];
    let expectations = expectations.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(reported.await, expectations);
}

#[tokio::test(start_paused = true)]
async fn avoids_revision_name_collisions() {
    let cluster = TestCluster::new();
    put_set(&cluster, &json!({}));
    let running = cluster.start("one", make);
    let first = until(&cluster, "one").await;
    drop(running);
    let cluster = TestCluster::new();
    let name = first["revision"].clone();
    cluster.put(
        &CONTROLLER_REVISIONS,
        json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"spec": {}}, "revision": 1}),
    );
    put_set(&cluster, &json!({}));
    let _running = cluster.start("one", make);
    let second = until(&cluster, "one").await;
    assert_eq!(second["collisions"], 1);
    assert_ne!(second["revision"], name);
}
