//! Jobs against an API in memory, with crashes and with two copies at once.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use serde_json::{Value, json};

use super::{
    make,
    pods::{FINALIZER, INDEX},
};
use crate::{
    resource::{JOBS, PODS},
    testing::{Stage, Story},
};

fn put_job(stage: &Stage, spec: Value) {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"job": "j"}});
    spec["template"] = json!({
        "metadata": {"labels": {"job": "j"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    stage.put(&JOBS, json!({"metadata": {"name": "j", "namespace": "shop"}, "spec": spec}));
}

fn pods(stage: &Stage) -> Vec<Value> {
    let pods = stage.api.list::<Pod>();
    pods.into_iter().map(|pod| serde_json::to_value(pod).unwrap()).collect()
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or("Pending")
}

/// Kubelets: pods run, then end as `code` says; those that go end at once.
fn kubelets(stage: &Stage, code: fn(&[Value], &Value) -> Option<i32>) {
    for pod in pods(stage) {
        let all = pods(stage);
        let (name, is_going) = (pod["metadata"]["name"].as_str().unwrap(), !pod["metadata"]["deletionTimestamp"].is_null());
        let mut next = pod.clone();
        let ended = |code: i32| {
            let state = json!({"terminated": {"exitCode": code, "finishedAt": stage.now().to_string()[..19].to_owned() + "Z"}});
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            json!({"phase": phase, "containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]})
        };
        match (phase(&pod), is_going) {
            ("Pending", false) => {
                next["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            }
            ("Running", false) => {
                let Some(code) = code(&all, &pod) else { continue };
                next["status"] = ended(code);
            }
            ("Succeeded" | "Failed", true) => {
                if pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    stage.api.remove::<Pod>("shop", name);
                }
                continue;
            }
            (_, true) => next["status"] = ended(137),
            _ => continue,
        }
        stage.put(&PODS, next);
    }
}

/// What there is when the job has finished.
fn finished(stage: &Stage) -> Option<Value> {
    let job = serde_json::to_value(stage.api.get::<Job>("shop", "j")?).unwrap();
    let status = &job["status"];
    let conditions = status["conditions"].as_array()?;
    conditions.iter().find(|condition| ["Complete", "Failed"].map(Value::from).contains(&condition["type"]))?;
    let said = conditions.iter().map(|condition| (condition["type"].clone(), condition["reason"].clone()));
    let mut phases: Vec<_> = pods(stage).iter().map(|pod| phase(pod).to_owned()).collect();
    phases.sort();
    let held = pods(stage).iter().filter(|pod| pod["metadata"]["finalizers"] == json!([FINALIZER])).count();
    let counts = ["active", "ready", "terminating", "succeeded", "failed", "completedIndexes", "failedIndexes"];
    let counts = counts.map(|count| (count, status[count].clone()));
    Some(json!({
        "conditions": said.collect::<Vec<_>>(), "counts": counts, "phases": phases, "held": held,
        "uncounted": status["uncountedTerminatedPods"],
    }))
}

/// The first pod to end fails.
const WORK: Story = Story {
    make,
    setup: |stage| put_job(stage, json!({"parallelism": 2, "completions": 3, "backoffLimit": 3})),
    play: |stage| {
        kubelets(stage, |all, _| {
            let has_failed = all.iter().any(|pod| phase(pod) == "Failed");
            Some(i32::from(!has_failed))
        });
    },
    end: finished,
};

/// Index 1 fails once, index 2 always.
const INDEXED: Story = Story {
    make,
    setup: |stage| {
        put_job(
            stage,
            json!({"parallelism": 2, "completions": 3, "completionMode": "Indexed", "backoffLimit": 100,
                "backoffLimitPerIndex": 1}),
        );
    },
    play: |stage| {
        kubelets(stage, |_, pod| {
            let annotations = &pod["metadata"]["annotations"];
            let before = &annotations["batch.kubernetes.io/job-index-failure-count"];
            let fails = annotations[INDEX] == "2" || annotations[INDEX] == "1" && before == "0";
            Some(i32::from(fails))
        });
    },
    end: finished,
};

/// No pod ever ends by itself.
const LATE: Story = Story {
    make,
    setup: |stage| put_job(stage, json!({"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 5})),
    play: |stage| kubelets(stage, |_, _| None),
    end: finished,
};

#[tokio::test(start_paused = true)]
async fn a_job_is_worked_off() {
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
async fn an_indexed_job_is_worked_off() {
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
async fn a_job_that_takes_too_long_is_ended() {
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
async fn jobs_survive_crashes_between_any_two_writes() {
    for story in [WORK, INDEXED, LATE] {
        story.survives_crashes().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_copies_work_off_a_job_as_one_does() {
    for story in [WORK, INDEXED, LATE] {
        story.survives_copies().await;
    }
}
