//! Jobs against an API in memory, with crashes and with two copies at once.

use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kubecontroller::testing::{eventually, eventually_within};
use serde_json::{Value, json};

use super::{
    make,
    pods::{FINALIZER, INDEX},
};
use crate::{
    resource::{JOBS, PODS},
    testing::{Scenario, TestCluster},
};

fn put_job(cluster: &TestCluster, spec: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"job": "j"}});
    spec["template"] = json!({
        "metadata": {"labels": {"job": "j"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    cluster.put(
        &JOBS,
        json!({"metadata": {"name": "j", "namespace": "shop"}, "spec": spec}),
    );
}

fn pods(cluster: &TestCluster) -> Vec<Value> {
    let pods = cluster.api.list::<Pod>();
    pods.into_iter()
        .map(|pod| serde_json::to_value(pod).unwrap())
        .collect()
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or("Pending")
}

/// Kubelets: pods run, then exit with `code`; terminating ones exit at once.
fn kubelets(cluster: &TestCluster, code: fn(&[Value], &Value) -> Option<i32>) {
    let mut all = pods(cluster);
    for at in 0..all.len() {
        let pod = all[at].clone();
        let name = pod["metadata"]["name"].as_str().unwrap();
        let is_terminating = !pod["metadata"]["deletionTimestamp"].is_null();
        let mut next = pod.clone();
        let ended = |code: i32| {
            let state = json!({"terminated": {"exitCode": code, "finishedAt": cluster.now().to_string()[..19].to_owned() + "Z"}});
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            json!({"phase": phase, "containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
        };
        match (phase(&pod), is_terminating) {
            ("Pending", false) => {
                next["status"] =
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            }
            ("Running", false) => {
                let Some(code) = code(&all, &pod) else { continue };
                next["status"] = ended(code);
            }
            ("Succeeded" | "Failed", true) => {
                if pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    cluster.api.remove::<Pod>("shop", name);
                }
                continue;
            }
            (_, true) => next["status"] = ended(137),
            _ => continue,
        }
        all[at] = cluster.put(&PODS, next);
    }
}

/// What there is when the job has finished.
fn finished(cluster: &TestCluster) -> Option<Value> {
    let job = serde_json::to_value(cluster.api.get::<Job>("shop", "j")?).unwrap();
    let status = &job["status"];
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|condition| {
        ["Complete", "Failed"]
            .map(Value::from)
            .contains(&condition["type"])
    })?;
    let said = conditions
        .iter()
        .map(|condition| (condition["type"].clone(), condition["reason"].clone()));
    let mut phases: Vec<_> = pods(cluster).iter().map(|pod| phase(pod).to_owned()).collect();
    phases.sort();
    let with_finalizer = pods(cluster)
        .iter()
        .filter(|pod| pod["metadata"]["finalizers"] == json!([FINALIZER]))
        .count();
    let counts = [
        "active",
        "ready",
        "terminating",
        "succeeded",
        "failed",
        "completedIndexes",
        "failedIndexes",
    ];
    let counts = counts.map(|count| (count, status[count].clone()));
    Some(json!({
        "conditions": said.collect::<Vec<_>>(), "counts": counts, "phases": phases, "held": with_finalizer,
        "uncounted": status["uncountedTerminatedPods"],
    }))
}

/// The first pod to end fails.
const WORK: Scenario = Scenario {
    make,
    setup: |cluster| {
        put_job(
            cluster,
            json!({"parallelism": 2, "completions": 3, "backoffLimit": 3}),
        );
    },
    play: |cluster| {
        kubelets(cluster, |all, _| {
            let has_failed = all.iter().any(|pod| phase(pod) == "Failed");
            Some(i32::from(!has_failed))
        });
    },
    end: finished,
};

/// Index 1 fails once, index 2 always.
const INDEXED: Scenario = Scenario {
    make,
    setup: |cluster| {
        put_job(
            cluster,
            json!({"parallelism": 2, "completions": 3, "completionMode": "Indexed", "backoffLimit": 100,
                "backoffLimitPerIndex": 1}),
        );
    },
    play: |cluster| {
        kubelets(cluster, |_, pod| {
            let annotations = &pod["metadata"]["annotations"];
            let before = &annotations["batch.kubernetes.io/job-index-failure-count"];
            let fails = annotations[INDEX] == "2" || annotations[INDEX] == "1" && before == "0";
            Some(i32::from(fails))
        });
    },
    end: finished,
};

/// No pod ever ends by itself.
const LATE: Scenario = Scenario {
    make,
    setup: |cluster| {
        put_job(
            cluster,
            json!({"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 5}),
        );
    },
    play: |cluster| kubelets(cluster, |_, _| None),
    end: finished,
};

#[tokio::test(start_paused = true)]
async fn job_completes() {
    let (end, writes) = WORK.run().await;
    assert_eq!(
        end,
        json!({
            "conditions": [["SuccessCriteriaMet", "CompletionsReached"], ["Complete", "CompletionsReached"]],
            "counts": [["active", null], ["ready", 0], ["terminating", 0], ["succeeded", 3], ["failed", 1],
                ["completedIndexes", null], ["failedIndexes", null]],
            "phases": ["Failed", "Succeeded", "Succeeded", "Succeeded"], "held": 0, "uncounted": {},
        })
    );
    assert!(writes < 25, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn indexed_job_completes() {
    let (end, _) = INDEXED.run().await;
    assert_eq!(
        end,
        json!({
            "conditions": [["FailureTarget", "FailedIndexes"], ["Failed", "FailedIndexes"]],
            "counts": [["active", null], ["ready", 0], ["terminating", 0], ["succeeded", 2], ["failed", 3],
                ["completedIndexes", "0,1"], ["failedIndexes", "2"]],
            "phases": ["Failed", "Failed", "Failed", "Succeeded", "Succeeded"], "held": 0, "uncounted": {},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn job_past_deadline_fails() {
    let (end, _) = LATE.run().await;
    assert_eq!(
        end,
        json!({
            "conditions": [["FailureTarget", "DeadlineExceeded"], ["Failed", "DeadlineExceeded"]],
            "counts": [["active", null], ["ready", 0], ["terminating", 0], ["succeeded", null], ["failed", 2],
                ["completedIndexes", null], ["failedIndexes", null]],
            "phases": [], "held": 0, "uncounted": {},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn job_survives_crashes() {
    WORK.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn indexed_job_survives_crashes() {
    INDEXED.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn failed_job_survives_crashes() {
    LATE.survives_crashes().await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_run_a_job_as_one() {
    for story in [WORK, INDEXED, LATE] {
        story.survives_copies().await;
    }
}

/// A pod created by another client.
fn stray(name: &str, uid: Option<&str>) -> Value {
    let owner = uid.map(
        |uid| json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": true}),
    );
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"job": "j"}, "finalizers": [FINALIZER]},
        "spec": {"containers": []},
        "status": {"phase": "Succeeded"},
    });
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    pod
}

fn is_free(cluster: &TestCluster, name: &str) -> bool {
    let pod = find(cluster, name);
    pod.is_some_and(|pod| pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty))
}

fn find(cluster: &TestCluster, name: &str) -> Option<Value> {
    pods(cluster)
        .into_iter()
        .find(|pod| pod["metadata"]["name"] == name)
}

#[tokio::test(start_paused = true)]
async fn adopts_and_counts_a_matching_pod() {
    let cluster = TestCluster::new();
    put_job(&cluster, json!({"parallelism": 1, "completions": 2}));
    let mut free = stray("free", None);
    free["metadata"]["finalizers"] = json!(["example.com/other"]);
    cluster.put(&PODS, free);
    let _running = cluster.start("one", make);
    let job = eventually(|| async {
        let job = serde_json::to_value(cluster.api.get::<Job>("shop", "j")?).unwrap();
        (job["status"]["succeeded"] == 1).then_some(job)
    });
    let job = job.await;
    let free = eventually(|| async {
        let free = find(&cluster, "free")?;
        (free["metadata"]["finalizers"] == json!(["example.com/other"])).then_some(free)
    });
    assert_eq!(
        free.await["metadata"]["ownerReferences"][0]["uid"],
        job["metadata"]["uid"]
    );
}

#[tokio::test(start_paused = true)]
async fn releases_pods_without_a_job() {
    let cluster = TestCluster::new();
    put_job(
        &cluster,
        json!({"parallelism": 0, "completions": 1, "managedBy": "example.com/other"}),
    );
    let uid = serde_json::to_value(cluster.api.get::<Job>("shop", "j").unwrap()).unwrap();
    let uid = uid["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut free = stray("free", None);
    free["metadata"]["labels"] = json!({"job": "another"});
    cluster.put(&PODS, free);
    cluster.put(&PODS, stray("of-old", Some("deleted")));
    cluster.put(&PODS, stray("of-other", Some(&uid)));
    let _running = cluster.start("one", make);
    for name in ["free", "of-old"] {
        eventually(|| async { is_free(&cluster, name) }).await;
    }
    let with_finalizer = find(&cluster, "of-other").unwrap();
    assert_eq!(with_finalizer["metadata"]["finalizers"], json!([FINALIZER]));
    let job = serde_json::to_value(cluster.api.get::<Job>("shop", "j").unwrap()).unwrap();
    assert_eq!(job["status"], json!(null), "it is the business of another");
    // Its job is deleted, and no finalizer is left.
    cluster.api.remove::<Job>("shop", "j");
    eventually(|| async { is_free(&cluster, "of-other") }).await;
}

#[tokio::test(start_paused = true)]
async fn records_job_events() {
    let cluster = TestCluster::new();
    (WORK.setup)(&cluster);
    let _running = cluster.start("one", make);
    let reasons = eventually_within(Duration::from_mins(5), || async {
        (WORK.play)(&cluster);
        let events = cluster.api.list::<Event>();
        let mut reasons: Vec<_> = events.into_iter().filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons.contains(&"Completed".to_owned()).then_some(reasons)
    });
    let created = "SuccessfulCreate";
    assert_eq!(reasons.await, ["Completed", created, created, created, created]);
}
