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
    testing::{Stage, Story},
};

fn put_set(stage: &Stage, more: &Value) {
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
    stage.put(&STATEFUL_SETS, set);
}

fn set(stage: &Stage) -> Value {
    let set = stage.api.get::<StatefulSet>("shop", "db");
    serde_json::to_value(set).unwrap()
}

/// Changes the spec, as a client does.
fn edit(stage: &Stage, change: impl FnOnce(&mut Value)) {
    let mut set = set(stage);
    set["metadata"]["generation"] = (set["metadata"]["generation"].as_i64().unwrap() + 1).into();
    change(&mut set["spec"]);
    stage.put(&STATEFUL_SETS, set);
}

fn set_image(spec: &mut Value, image: &str) {
    spec["template"]["spec"]["containers"][0]["image"] = image.into();
}

/// The pods with their images.
fn images(stage: &Stage) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = stage.pods().into_iter();
    pods.map(|pod| {
        (
            text(&pod["metadata"]["name"]),
            text(&pod["spec"]["containers"][0]["image"]),
        )
    })
    .collect()
}

fn revisions(stage: &Stage) -> Vec<i64> {
    let revisions = stage.api.list::<ControllerRevision>().into_iter();
    let mut numbers: Vec<_> = revisions.filter_map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    numbers
}

/// What there is when all pods are of an image and ready, and everybody knows.
fn complete(stage: &Stage, image: &str) -> Option<Value> {
    let set = set(stage);
    let (status, replicas) = (&set["status"], &set["spec"]["replicas"]);
    let counts = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "currentReplicas",
        "updatedReplicas",
    ];
    let is_full = counts.iter().all(|count| status[count] == *replicas);
    let is_seen = status["observedGeneration"] == set["metadata"]["generation"];
    let images = images(stage);
    let is_image = images.iter().all(|(_, of)| of == image);
    if !is_full || !is_seen || !is_image || status["currentRevision"] != status["updateRevision"] {
        return None;
    }
    let claims = stage.api.list::<PersistentVolumeClaim>().into_iter();
    let claims = claims.map(|claim| {
        let owners = claim.metadata.owner_references.into_iter().flatten();
        let owners: Vec<_> = owners.map(|owner| owner.kind).collect();
        json!([claim.metadata.name, claim.metadata.labels, owners])
    });
    Some(json!({
        "images": images, "revisions": revisions(stage), "claims": claims.collect::<Vec<_>>(),
        "revision": status["updateRevision"], "collisions": status["collisionCount"],
    }))
}

/// A set comes up, is rolled over to another image, and gets smaller.
const ROLLED: Story = Story {
    make,
    setup: |stage| {
        put_set(
            stage,
            &json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}),
        );
    },
    play: |stage| {
        stage.run_pods(|_| false);
        match set(stage)["metadata"]["generation"].as_i64() {
            Some(1) if complete(stage, "one").is_some() => edit(stage, |spec| set_image(spec, "two")),
            Some(2) if complete(stage, "two").is_some() => edit(stage, |spec| spec["replicas"] = 1.into()),
            _ => {}
        }
    },
    end: |stage| complete(stage, "two").filter(|_| set(stage)["metadata"]["generation"] == 3),
};

/// The same with pods that do not wait for each other.
const PARALLEL: Story = Story {
    make,
    setup: |stage| {
        let bounds = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}});
        put_set(
            stage,
            &json!({"podManagementPolicy": "Parallel", "replicas": 3, "updateStrategy": bounds, "revisionHistoryLimit": 0}),
        );
    },
    play: |stage| {
        stage.run_pods(|_| false);
        if set(stage)["metadata"]["generation"] == 1 && complete(stage, "one").is_some() {
            edit(stage, |spec| set_image(spec, "two"));
        }
    },
    end: |stage| complete(stage, "two").filter(|_| revisions(stage).len() == 1),
};

async fn until(stage: &Stage, image: &str) -> Value {
    eventually_within(Duration::from_mins(5), || async {
        stage.run_pods(|_| false);
        complete(stage, image)
    })
    .await
}

async fn rest(stage: &Stage, turns: u32) {
    for _ in 0..turns {
        stage.run_pods(|_| false);
        sleep(Duration::from_millis(250)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_comes_up_is_rolled_over_and_gets_smaller() {
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
async fn a_set_survives_crashes_between_any_two_writes() {
    ROLLED.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn a_parallel_set_survives_crashes_between_any_two_writes() {
    PARALLEL.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_copies_keep_a_set_as_one_does() {
    for story in [ROLLED, PARALLEL] {
        story.survives_copies().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_taken_back_to_an_earlier_revision() {
    let stage = Stage::new();
    put_set(&stage, &json!({}));
    let _running = stage.start("one", make);
    let first = until(&stage, "one").await;
    edit(&stage, |spec| set_image(spec, "two"));
    until(&stage, "two").await;
    edit(&stage, |spec| set_image(spec, "one"));
    let third = until(&stage, "one").await;
    assert_eq!(first["revision"], third["revision"]);
    assert_eq!(third["revisions"], json!([2, 3]));
    stage.api.clear_requests();
    rest(&stage, 240).await;
    assert_eq!(stage.api.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_keeps_its_bounds_at_every_moment() {
    for policy in ["OrderedReady", "Parallel"] {
        let stage = Stage::new();
        let bounds = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 2}});
        put_set(
            &stage,
            &json!({"podManagementPolicy": policy, "replicas": 5, "updateStrategy": bounds}),
        );
        let _running = stage.start("one", make);
        until(&stage, "one").await;
        edit(&stage, |spec| set_image(spec, "two"));
        let check = || {
            let stays = |pod: &&Value| {
                pod["metadata"].get("deletionTimestamp").is_none() && pod["status"]["phase"] == "Running"
            };
            let ready = stage.pods().iter().filter(stays).count();
            assert!(ready >= 3, "{policy}: {ready}");
        };
        eventually_within(Duration::from_mins(5), || async {
            check();
            stage.run_pods(|_| false);
            check();
            complete(&stage, "two")
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_before_the_partition_stay_at_the_revision_they_were_of() {
    let stage = Stage::new();
    put_set(&stage, &json!({}));
    let _running = stage.start("one", make);
    until(&stage, "one").await;
    edit(&stage, |spec| {
        set_image(spec, "two");
        spec["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    });
    rest(&stage, 20).await;
    let split = vec![
        ("db-0".to_owned(), "one".to_owned()),
        ("db-1".to_owned(), "two".to_owned()),
    ];
    assert_eq!(images(&stage), split);
    // One that is deleted comes again as it was.
    stage.api.remove::<Pod>("shop", "db-0");
    rest(&stage, 20).await;
    assert_eq!(images(&stage), split);
    let status = &set(&stage)["status"];
    assert_eq!(
        (&status["currentReplicas"], &status["updatedReplicas"]),
        (&json!(1), &json!(1))
    );
    assert_ne!(status["currentRevision"], status["updateRevision"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_made_anew_with_its_claim() {
    let stage = Stage::new();
    put_set(&stage, &json!({}));
    let _running = stage.start("one", make);
    until(&stage, "one").await;
    let mut pod = stage.pods().remove(0);
    let uid = pod["metadata"]["uid"].clone();
    pod["status"] = json!({"phase": "Failed"});
    stage.put(&PODS, pod);
    rest(&stage, 8).await;
    until(&stage, "one").await;
    let again = stage.pods().remove(0);
    assert_eq!(again["metadata"]["name"], "db-0");
    assert_ne!(again["metadata"]["uid"], uid);
    assert_eq!(
        again["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}])
    );
    assert_eq!(stage.api.list::<PersistentVolumeClaim>().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_the_pods_that_are_too_many() {
    let stage = Stage::new();
    stage.api.collect_garbage();
    let policy =
        json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}});
    put_set(&stage, &policy);
    let _running = stage.start("one", make);
    until(&stage, "one").await;
    edit(&stage, |spec| spec["replicas"] = 1.into());
    until(&stage, "one").await;
    let names = || {
        let claims = stage.api.list::<PersistentVolumeClaim>().into_iter();
        claims.filter_map(|claim| claim.metadata.name).collect::<Vec<_>>()
    };
    eventually(|| async { names() == ["data-db-0"] }).await;
    edit(&stage, |spec| spec["replicas"] = 2.into());
    until(&stage, "one").await;
    assert_eq!(names(), ["data-db-0", "data-db-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_the_claim_of_the_one_before_it_to_go() {
    let stage = Stage::new();
    let policy = json!({"replicas": 1, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}});
    put_set(&stage, &policy);
    let left =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "before", "controller": true});
    stage.put(
        &PERSISTENT_VOLUME_CLAIMS,
        json!({"metadata": {"name": "data-db-0", "namespace": "shop", "ownerReferences": [left]}, "spec": {}}),
    );
    let _running = stage.start("one", make);
    rest(&stage, 20).await;
    assert!(stage.pods().is_empty());
    stage.api.remove::<PersistentVolumeClaim>("shop", "data-db-0");
    until(&stage, "one").await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_match_are_taken_in_and_others_let_go() {
    let stage = Stage::new();
    put_set(&stage, &json!({"volumeClaimTemplates": []}));
    let stray = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "one"}]},
            "status": {"phase": "Pending"}})
    };
    stage.put(&PODS, stray("db-0"));
    stage.put(&PODS, stray("other-0"));
    let _running = stage.start("one", make);
    let owned = |pod: &str| {
        let pod = stage.api.get::<Pod>("shop", pod);
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
        stage.run_pods(|_| false);
        let pod = stage.api.get::<Pod>("shop", "db-0")?;
        let label = pod
            .metadata
            .labels?
            .remove("statefulset.kubernetes.io/pod-name")?;
        (label == "db-0").then_some(())
    })
    .await;
    let mut pod = stage.pods().remove(0);
    pod["metadata"]["labels"] = json!({"app": "b"});
    stage.put(&PODS, pod);
    eventually(|| async { !owned("db-0") }).await;
}

fn disown(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("ownerReferences");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_made_again_goes_on_with_what_is_there() {
    let stage = Stage::new();
    put_set(&stage, &json!({}));
    let running = stage.start("one", make);
    let first = until(&stage, "one").await;
    drop(running);
    // As a garbage collector leaves orphans.
    for mut pod in stage.pods() {
        disown(&mut pod);
        stage.put(&PODS, pod);
    }
    for revision in stage.api.list::<ControllerRevision>() {
        let mut revision = serde_json::to_value(revision).unwrap();
        disown(&mut revision);
        stage.put(&CONTROLLER_REVISIONS, revision);
    }
    stage.api.remove::<StatefulSet>("shop", "db");
    put_set(&stage, &json!({}));
    let uids = || {
        let uids = stage.pods().into_iter().map(|pod| pod["metadata"]["uid"].clone());
        uids.collect::<Vec<_>>()
    };
    let before = uids();
    let _running = stage.start("two", make);
    assert_eq!(until(&stage, "one").await, first);
    assert_eq!(uids(), before);
    let owner = set(&stage)["metadata"]["uid"].clone();
    for pod in stage.pods() {
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], owner);
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_told_what_happens_to_a_set() {
    let stage = Stage::new();
    put_set(&stage, &json!({"replicas": 1}));
    let _running = stage.start("one", make);
    until(&stage, "one").await;
    edit(&stage, |spec| spec["replicas"] = 0.into());
    let told = eventually_within(Duration::from_mins(5), || async {
        stage.run_pods(|_| false);
        let events = stage.api.list::<Event>().into_iter();
        let mut told: Vec<_> = events
            .filter_map(|event| Some((event.reason?, event.message?)))
            .collect();
        told.sort();
        (told.len() == 3).then_some(told)
    });
    let expected = [
        (
            "SuccessfulCreate",
            "Create Claim data-db-0 Pod db-0 in StatefulSet db success",
        ),
        ("SuccessfulCreate", "Create Pod db-0 in StatefulSet db successful"),
        ("SuccessfulDelete", "Delete Pod db-0 in StatefulSet db successful"),
    ];
    let expected = expected.map(|(reason, message)| (reason.to_owned(), message.to_owned()));
    assert_eq!(told.await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_by_another_template_is_avoided() {
    let stage = Stage::new();
    put_set(&stage, &json!({}));
    let running = stage.start("one", make);
    let first = until(&stage, "one").await;
    drop(running);
    let stage = Stage::new();
    let name = first["revision"].clone();
    stage.put(
        &CONTROLLER_REVISIONS,
        json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"spec": {}}, "revision": 1}),
    );
    put_set(&stage, &json!({}));
    let _running = stage.start("one", make);
    let second = until(&stage, "one").await;
    assert_eq!(second["collisions"], 1);
    assert_ne!(second["revision"], name);
}
