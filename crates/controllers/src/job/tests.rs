//! Jobs and their pods over time, without a server.

use std::sync::Arc;

use k3_workloads::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    backoff::BackoffRecord,
    manage::PodAction,
    new_pods::{JobPod, new_pods},
    pods::{FINALIZER, INDEX},
    snapshot::JobSnapshot,
    track_status::{PodChanges, StatusTracker, status_patch},
};
use crate::objects::Job;

/// A job and its pods, as a server would have them.
struct JobFixture {
    job: Value,
    pods: Vec<Value>,
    now: Timestamp,
    failures: Option<BackoffRecord>,
    reported: Vec<String>,
}

impl JobFixture {
    fn new(spec: Value) -> Self {
        let mut spec = spec;
        spec["template"] = json!({
            "metadata": {"labels": {"job-name": "j"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]},
        });
        JobFixture {
            job: json!({"metadata": {"name": "j", "namespace": "shop", "uid": "u1"}, "spec": spec}),
            pods: Vec::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            failures: None,
            reported: Vec::new(),
        }
    }

    fn job(&self) -> Job {
        serde_json::from_value(self.job.clone()).unwrap()
    }

    fn pass(&mut self, seconds: i64) -> &mut Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    /// One look, and all that follows from it.
    fn sync(&mut self) -> String {
        let job = self.job();
        if job.finished().is_some() {
            return "finished".to_owned();
        }
        let pods: Vec<Arc<Pod>> = self
            .pods
            .iter()
            .map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap()))
            .collect();
        let snapshot = JobSnapshot::new(&job, &pods, self.failures, self.now);
        let action = PodAction::new(&snapshot);
        let mut done = PodChanges::default();
        let did = match &action {
            PodAction::Nothing => "nothing".to_owned(),
            PodAction::Wait(wait) => format!("wait {}", wait.as_secs()),
            PodAction::JobEnd(being_deleted) | PodAction::Delete(being_deleted) => {
                let release = matches!(action, PodAction::Delete(_));
                for pod in being_deleted {
                    self.delete(&pod.metadata.name);
                    if release {
                        self.remove_finalizers(&pod.metadata.name);
                    }
                    done.deleted += 1;
                    done.deleted_ready += i32::from(pod.is_ready());
                }
                format!(
                    "{} {}",
                    if release { "delete" } else { "end" },
                    being_deleted.len()
                )
            }
            PodAction::Create(wanted) => {
                for JobPod { text, name } in
                    new_pods(&snapshot, wanted, |name| self.position(name).is_some()).unwrap()
                {
                    let mut pod: Value = serde_json::from_str(text.get()).unwrap();
                    pod["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.now));
                    pod["metadata"]["creationTimestamp"] = json!(self.now);
                    pod["metadata"]["namespace"] = json!("shop");
                    self.pods.push(pod);
                    done.created += 1;
                }
                format!("create {}", wanted.len())
            }
        };
        let mut tracker = StatusTracker::new(&snapshot, &action, done);
        if tracker.status != job.status {
            merge(&mut self.job, &status_patch(&tracker.status, ""));
        }
        self.failures = Some(snapshot.failures);
        let release = tracker.release.clone();
        for pod in &release {
            self.remove_finalizers(&pod.metadata.name);
        }
        tracker.released(release.iter().map(|pod| &**pod));
        tracker.finish();
        merge(&mut self.job, &status_patch(&tracker.status, ""));
        self.reported.extend(
            tracker
                .events
                .into_iter()
                .map(|events| events.reason().to_owned()),
        );
        did
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.pods.iter().position(|pod| pod["metadata"]["name"] == name)
    }

    fn remove_finalizers(&mut self, name: &str) {
        let Some(at) = self.position(name) else { return };
        self.pods[at]["metadata"]["finalizers"] = json!([]);
        self.collect(at);
    }

    fn delete(&mut self, name: &str) {
        let Some(at) = self.position(name) else { return };
        self.pods[at]["metadata"]["deletionTimestamp"] = json!(self.now);
    }

    /// A terminating pod without finalizers is removed at once; a kubelet would take longer.
    fn collect(&mut self, at: usize) {
        let metadata = &self.pods[at]["metadata"];
        let is_running = self.pods[at]["status"]["phase"] == "Running";
        if metadata["deletionTimestamp"].is_string() && metadata["finalizers"] == json!([]) && !is_running {
            self.pods.remove(at);
        }
    }

    /// The pods that work.
    fn active(&self) -> Vec<String> {
        let active = self.pods.iter().filter(|pod| {
            let phase = pod["status"]["phase"].as_str().unwrap_or("Pending");
            matches!(phase, "Pending" | "Running") && pod["metadata"]["deletionTimestamp"].is_null()
        });
        active
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Ends the first pod that works, or that of an index.
    fn end(&mut self, index: Option<u32>, code: i32) {
        let of_index = |pod: &Value| {
            index.is_none_or(|index| pod["metadata"]["annotations"][INDEX] == json!(index.to_string()))
        };
        let active = self.active();
        let pod = self
            .pods
            .iter_mut()
            .find(|pod| of_index(pod) && active.iter().any(|name| pod["metadata"]["name"] == name.as_str()));
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let state = json!({"terminated": {"exitCode": code, "finishedAt": self.now}});
        pod.expect("a pod works")["status"] =
            json!({"phase": phase, "containerStatuses": [{"name": "c", "state": state}]});
    }

    fn status(&self, fields: &[&str]) -> Value {
        let status = fields
            .iter()
            .map(|field| ((*field).to_owned(), self.job["status"][field].clone()));
        Value::Object(status.collect())
    }

    fn conditions(&self) -> Vec<String> {
        let conditions = self.job["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let conditions = conditions.iter().map(|condition| {
            let fields = ["type", "status", "reason"].map(|field| text(condition, field));
            fields.join(" ")
        });
        conditions.collect()
    }
}

fn merge(tree: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *tree = patch.clone();
        return;
    };
    if !tree.is_object() {
        *tree = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            tree.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut tree[name], value);
        }
    }
}

const COUNTS: &[&str] = &["active", "ready", "terminating", "succeeded", "failed"];

#[test]
fn runs_pods_until_completions() {
    let mut world = JobFixture::new(json!({"parallelism": 2, "completions": 3}));
    assert_eq!(world.sync(), "create 2");
    assert_eq!(
        world.status(COUNTS),
        json!({"active": 2, "ready": 0, "terminating": 0, "succeeded": null, "failed": null})
    );
    assert_eq!(world.sync(), "nothing");
    world.end(None, 0);
    assert_eq!(world.sync(), "create 1");
    assert_eq!(
        world.status(COUNTS),
        json!({"active": 2, "ready": 0, "terminating": 0, "succeeded": 1, "failed": null})
    );
    world.end(None, 0);
    assert_eq!(world.sync(), "nothing");
    world.pass(5).end(None, 0);
    assert_eq!(world.sync(), "nothing");
    assert_eq!(
        world.status(COUNTS),
        json!({"active": null, "ready": 0, "terminating": 0, "succeeded": 3, "failed": null})
    );
    assert_eq!(
        world.conditions(),
        [
            "SuccessCriteriaMet True CompletionsReached",
            "Complete True CompletionsReached"
        ]
    );
    assert_eq!(world.job["status"]["completionTime"], "2026-01-01T00:00:05Z");
    assert_eq!(world.job["status"]["uncountedTerminatedPods"], json!({}));
    assert_eq!(world.reported, ["Completed"]);
}

#[test]
fn work_queue_job_completes_after_first_success() {
    let mut world = JobFixture::new(json!({"parallelism": 3}));
    assert_eq!(world.sync(), "create 3");
    world.end(None, 0);
    assert_eq!(world.sync(), "nothing");
    assert_eq!(world.active().len(), 2);
    world.end(None, 1);
    world.end(None, 0);
    assert_eq!(world.sync(), "nothing");
    assert_eq!(
        world.status(&["succeeded", "failed"]),
        json!({"succeeded": 2, "failed": 1})
    );
    assert_eq!(world.conditions().len(), 2);
}

#[test]
fn replaces_failed_pods_up_to_backoff_limit() {
    let mut world = JobFixture::new(json!({"parallelism": 1, "completions": 1, "backoffLimit": 2}));
    assert_eq!(world.sync(), "create 1");
    world.pass(1).end(None, 1);
    assert_eq!(world.sync(), "wait 10");
    assert_eq!(world.pass(4).sync(), "wait 6");
    world.failures = None;
    assert_eq!(world.sync(), "wait 6");
    assert_eq!(world.pass(7).sync(), "create 1");
    world.end(None, 1);
    assert_eq!(world.sync(), "wait 20");
    assert_eq!(world.pass(21).sync(), "create 1");
    world.end(None, 1);
    assert_eq!(world.sync(), "end 0");
    assert_eq!(world.status(&["failed"]), json!({"failed": 3}));
    assert_eq!(
        world.conditions(),
        [
            "FailureTarget True BackoffLimitExceeded",
            "Failed True BackoffLimitExceeded"
        ]
    );
    assert_eq!(world.reported, ["BackoffLimitExceeded"]);
}

#[test]
fn fails_after_active_deadline() {
    let mut world = JobFixture::new(json!({"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 5}));
    world.sync();
    world.pods[0]["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(world.pass(4).sync(), "nothing");
    assert_eq!(world.status(&["ready"]), json!({"ready": 1}));
    assert_eq!(world.pass(1).sync(), "end 2");
    assert_eq!(world.conditions(), ["FailureTarget True DeadlineExceeded"]);
    assert_eq!(
        world.status(COUNTS),
        json!({"active": null, "ready": 0, "terminating": 2, "succeeded": null, "failed": 2})
    );
    assert_eq!(world.sync(), "end 0");
    assert_eq!(world.conditions().len(), 1);
    world.pods.clear();
    assert_eq!(world.sync(), "end 0");
    assert_eq!(
        world.conditions(),
        [
            "FailureTarget True DeadlineExceeded",
            "Failed True DeadlineExceeded"
        ]
    );
    assert_eq!(
        world.job["status"]["conditions"][1]["message"],
        "Job was active longer than specified deadline"
    );
    assert_eq!(world.job["status"].get("completionTime"), None);
}

#[test]
fn suspends_and_resumes() {
    let mut world = JobFixture::new(json!({"parallelism": 2, "completions": 2, "suspend": true}));
    assert_eq!(world.sync(), "delete 0");
    assert_eq!(world.conditions(), ["Suspended True JobSuspended"]);
    assert_eq!(world.job["status"].get("startTime"), None);
    world.job["spec"]["suspend"] = json!(false);
    assert_eq!(world.pass(10).sync(), "create 2");
    assert_eq!(world.conditions(), ["Suspended False JobResumed"]);
    assert_eq!(world.job["status"]["startTime"], "2026-01-01T00:00:10Z");
    world.job["spec"]["suspend"] = json!(true);
    assert_eq!(world.pass(10).sync(), "delete 2");
    assert_eq!(world.job["status"].get("startTime"), None);
    assert_eq!(
        world.status(&["active", "failed"]),
        json!({"active": null, "failed": null})
    );
    assert_eq!(world.reported, ["Suspended", "Resumed", "Suspended"]);
    assert!(world.pods.is_empty());
}

#[test]
fn completes_each_index_once() {
    let mut world = JobFixture::new(json!({"parallelism": 2, "completions": 4, "completionMode": "Indexed"}));
    assert_eq!(world.sync(), "create 2");
    let pod = &world.pods[1];
    assert!(
        pod["metadata"]["name"].as_str().unwrap().starts_with("j-1-"),
        "{pod}"
    );
    assert_eq!(pod["metadata"]["labels"][INDEX], "1");
    assert_eq!(pod["spec"]["hostname"], "j-1");
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}}])
    );
    world.end(Some(1), 0);
    assert_eq!(world.sync(), "create 1");
    assert_eq!(
        world.status(&["completedIndexes", "succeeded"]),
        json!({"completedIndexes": "1", "succeeded": 1})
    );
    world.end(Some(2), 0);
    assert_eq!(world.sync(), "create 1");
    // Fewer completions: what is past the end does not count any more.
    world.job["spec"]["completions"] = json!(2);
    world.job["spec"]["parallelism"] = json!(2);
    assert_eq!(world.sync(), "delete 1");
    assert_eq!(
        world.status(&["completedIndexes", "succeeded"]),
        json!({"completedIndexes": "1", "succeeded": 1})
    );
    world.end(Some(0), 0);
    world.sync();
    assert_eq!(
        world.status(&["completedIndexes"]),
        json!({"completedIndexes": "0,1"})
    );
    assert_eq!(world.conditions().len(), 2);
}

#[test]
fn fails_an_index_beyond_its_backoff_limit() {
    let mut world = JobFixture::new(json!({
        "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "backoffLimit": i32::MAX, "podFailurePolicy": {"rules": [
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}},
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        ]},
    }));
    assert_eq!(world.sync(), "create 3");
    world.end(Some(0), 1);
    world.end(Some(1), 9);
    assert_eq!(world.sync(), "wait 10");
    assert_eq!(world.status(&["failedIndexes"]), json!({"failedIndexes": "1"}));
    // The pod that carries the count stays until another does.
    let with_finalizer = world
        .pods
        .iter()
        .filter(|pod| pod["metadata"]["finalizers"] == json!([FINALIZER]))
        .count();
    assert_eq!(with_finalizer, 2);
    assert_eq!(world.pass(11).sync(), "create 1");
    let newest = &world.pods.last().unwrap()["metadata"]["annotations"];
    assert_eq!(newest["batch.kubernetes.io/job-index-failure-count"], "1");
    world.sync();
    world.end(Some(2), 7);
    assert_eq!(world.sync(), "wait 10");
    assert_eq!(world.pass(11).sync(), "create 1");
    let newest = &world.pods.last().unwrap()["metadata"]["annotations"];
    assert_eq!(newest["batch.kubernetes.io/job-index-failure-count"], "0");
    assert_eq!(newest["batch.kubernetes.io/job-index-ignored-failure-count"], "1");
    world.end(Some(0), 1);
    world.end(Some(2), 0);
    world.sync();
    world.sync();
    assert_eq!(
        world.status(&["completedIndexes", "failedIndexes", "succeeded", "failed"]),
        json!({"completedIndexes": "2", "failedIndexes": "0,1", "succeeded": 1, "failed": 3})
    );
    assert_eq!(
        world.conditions(),
        ["FailureTarget True FailedIndexes", "Failed True FailedIndexes"]
    );
}

#[test]
fn fails_beyond_max_failed_indexes() {
    let mut world = JobFixture::new(json!({
        "parallelism": 5, "completions": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
        "backoffLimit": i32::MAX,
    }));
    assert_eq!(world.sync(), "create 5");
    world.end(Some(3), 1);
    assert_eq!(world.sync(), "nothing");
    assert_eq!(world.conditions(), [] as [String; 0]);
    world.end(Some(4), 1);
    assert_eq!(world.sync(), "end 3");
    assert_eq!(
        world.status(&["failedIndexes", "failed"]),
        json!({"failedIndexes": "3,4", "failed": 5})
    );
    assert_eq!(
        world.conditions(),
        ["FailureTarget True MaxFailedIndexesExceeded"]
    );
}

#[test]
fn success_policy_completes_the_job() {
    let mut world = JobFixture::new(json!({
        "parallelism": 3, "completions": 3, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
    }));
    assert_eq!(world.sync(), "create 3");
    world.end(Some(0), 0);
    assert_eq!(world.sync(), "end 2");
    assert_eq!(world.conditions(), ["SuccessCriteriaMet True SuccessPolicy"]);
    assert_eq!(
        world.status(&["failed", "succeeded"]),
        json!({"failed": null, "succeeded": 1})
    );
    assert_eq!(world.sync(), "end 0");
    assert_eq!(
        world.conditions(),
        [
            "SuccessCriteriaMet True SuccessPolicy",
            "Complete True SuccessPolicy"
        ]
    );
    assert_eq!(
        world.job["status"]["conditions"][1]["message"],
        "Matched rules at index 0"
    );
}

#[test]
fn applies_pod_failure_policy() {
    let rules = json!([
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    ]);
    let mut world = JobFixture::new(json!({
        "parallelism": 2, "completions": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": rules},
    }));
    assert_eq!(world.sync(), "create 2");
    world.end(None, 7);
    assert_eq!(world.sync(), "wait 10");
    assert_eq!(world.status(&["failed"]), json!({"failed": null}));
    assert_eq!(world.pass(11).sync(), "create 1");
    world.end(None, 42);
    assert_eq!(world.sync(), "end 1");
    assert_eq!(world.conditions(), ["FailureTarget True PodFailurePolicy"]);
    assert_eq!(world.status(&["failed"]), json!({"failed": 2}));
}

#[test]
fn respects_pod_replacement_policy() {
    for (policy, first) in [("TerminatingOrFailed", "wait 10"), ("Failed", "nothing")] {
        let mut world = JobFixture::new(json!({
            "parallelism": 1, "completions": 1, "podReplacementPolicy": policy, "backoffLimit": 6,
        }));
        world.sync();
        world.pods[0]["status"]["phase"] = json!("Running");
        let name = world.active()[0].clone();
        world.delete(&name);
        assert_eq!(world.sync(), first, "{policy}");
        assert_eq!(world.status(&["terminating"]), json!({"terminating": 1}));
        world.pass(11);
        let next = world.sync();
        assert_eq!(next, if policy == "Failed" { "nothing" } else { "create 1" });
    }
}

#[test]
fn deletes_pods_with_duplicate_indexes() {
    let mut world = JobFixture::new(json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"}));
    world.sync();
    let mut double = world.pods[0].clone();
    double["metadata"]["name"] = json!("double");
    double["metadata"]["uid"] = json!("double");
    double["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:09Z");
    let mut orphan_pod = double.clone();
    orphan_pod["metadata"]["name"] = json!("stray");
    orphan_pod["metadata"]["annotations"] = json!({});
    world.pods.extend([double, orphan_pod]);
    assert_eq!(world.sync(), "delete 2");
    assert!(
        world.active().iter().all(|name| name.starts_with("j-")),
        "{:?}",
        world.active()
    );
    assert_eq!(world.sync(), "nothing");
}

#[test]
fn chooses_deterministic_pod_names() {
    let job = JobFixture::new(json!({"parallelism": 3, "completions": 3})).job();
    let snapshot = JobSnapshot::new(&job, &[], None, "2026-01-01T00:00:00Z".parse().unwrap());
    let PodAction::Create(wanted) = PodAction::new(&snapshot) else {
        panic!("pods are wanted")
    };
    let names = |taken: &[Box<str>]| -> Vec<Box<str>> {
        let pods = new_pods(&snapshot, &wanted, |name| {
            taken.iter().any(|taken| &**taken == name)
        })
        .unwrap();
        pods.into_iter().map(|pod| pod.name).collect()
    };
    let first = names(&[]);
    assert_eq!(names(&[]), first);
    assert!(
        first.iter().all(|name| name.len() == 7 && name.starts_with("j-")),
        "{first:?}"
    );
    let second = names(&first);
    assert!(second.iter().all(|name| !first.contains(name)), "{second:?}");
}
