use std::{sync::Arc, time::Duration};

use k3_workloads::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{
    condition::{AVAILABLE, PROGRESSING, REPLICA_FAILURE},
    replica_set::{REVISION, ROLLBACK_TO},
    sync::{SyncPlan, plan},
};
use crate::objects::{Deployment, DeploymentStatus, ReplicaSet};

const NOW: &str = "2026-01-01T00:10:00Z";

fn merge(tree: &mut Value, patch: &Value) {
    if let (Value::Object(fields), Value::Object(patch)) = (&mut *tree, patch) {
        for (name, value) in patch {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    } else {
        *tree = patch.clone();
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A deployment of two pods of the image `two`.
fn deployment(more: &Value) -> Deployment {
    let mut tree = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "d", "resourceVersion": "9", "generation": 2},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "a"}},
            "progressDeadlineSeconds": 60,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template("two"),
        },
    });
    merge(&mut tree, more);
    serde_json::from_str(&tree.to_string()).unwrap()
}

/// A set of a revision with pods that are all available.
fn set(image: &str, revision: u32, replicas: u32, more: &Value) -> Arc<ReplicaSet> {
    let mut tree = json!({
        "metadata": {
            "name": format!("web-{image}"), "uid": image, "resourceVersion": "5", "generation": 1,
            "creationTimestamp": format!("2026-01-01T00:00:0{revision}Z"),
            "annotations": {
                REVISION: revision.to_string(),
                "deployment.kubernetes.io/desired-replicas": "2",
                "deployment.kubernetes.io/max-replicas": "3",
            },
        },
        "spec": {"replicas": replicas, "template": template(image)},
        "status": {
            "replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
            "terminatingReplicas": 0, "observedGeneration": 1,
        },
    });
    tree["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = json!(image);
    merge(&mut tree, more);
    Arc::new(serde_json::from_str(&tree.to_string()).unwrap())
}

/// What is said of two pods of the image `one`.
fn counts() -> Value {
    json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 2})
}

fn progressing(status: &str, reason: &str, updated: &str) -> Value {
    json!({"type": PROGRESSING, "status": status, "reason": reason, "lastUpdateTime": updated, "lastTransitionTime": updated})
}

fn planned(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> SyncPlan {
    plan(deployment, sets.to_vec(), |_| false, NOW.parse().unwrap()).unwrap()
}

fn reason<'a>(status: &'a DeploymentStatus, kind: &str) -> &'a str {
    Condition::find(&status.conditions, kind).map_or("", |condition| &condition.reason)
}

fn message<'a>(status: &'a DeploymentStatus, kind: &str) -> &'a str {
    Condition::find(&status.conditions, kind).map_or("", |condition| &condition.message)
}

/// The sets that are scaled: name, from, to.
fn scaled(plan: &SyncPlan) -> Vec<(&str, i32, i32)> {
    let changes = plan.changes.iter();
    changes
        .filter_map(|change| {
            change
                .scaled
                .map(|(from, to)| (&*change.set.metadata.name, from, to))
        })
        .collect()
}

// --- sets ---

#[test]
fn creates_a_replica_set_for_a_new_template() {
    let deployment = deployment(&json!({
        "metadata": {"annotations": {"cause": "new", REVISION: "1"}},
        "status": counts(),
    }));
    let plan = planned(&deployment, &[set("one", 1, 2, &json!({}))]);
    let creation = plan.creation.unwrap();
    let hash = deployment.spec.template.hash(None).unwrap();
    assert_eq!(&*creation.name, format!("web-{hash}"));
    assert_eq!(creation.replicas, 1);
    let mut template = template("two");
    template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
    assert_eq!(
        creation.body,
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": creation.name,
                "labels": {"app": "a", "pod-template-hash": hash},
                "annotations": {
                    "cause": "new", REVISION: "2",
                    "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "replicas": 1, "minReadySeconds": 0, "template": template,
                "selector": {"matchLabels": {"app": "a", "pod-template-hash": hash}},
            },
        })
    );
    assert_eq!(plan.revision.as_deref(), Some("2"));
    let status = plan.status.unwrap();
    assert_eq!(reason(&status, PROGRESSING), "NewReplicaSetCreated");
    assert_eq!(
        message(&status, PROGRESSING),
        format!("Created new replica set {:?}", creation.name)
    );
    assert_eq!(plan.requeue_after, Some(Duration::from_millis(60_020)));
}

#[test]
fn avoids_hash_collisions() {
    let name = |collisions: Value| {
        let deployment = deployment(&json!({"status": {"collisionCount": collisions}}));
        planned(&deployment, &[]).creation.unwrap().name
    };
    assert_ne!(name(json!(null)), name(json!(1)));
}

#[test]
fn truncates_long_names() {
    let deployment = deployment(&json!({"metadata": {"name": "n".repeat(253)}}));
    let name = planned(&deployment, &[]).creation.unwrap().name;
    assert!(name.len() == 253 && name.contains("n-"));
}

#[test]
fn reuses_the_replica_set_of_an_earlier_template() {
    let sets = [set("two", 1, 0, &json!({})), set("one", 3, 2, &json!({}))];
    let plan = planned(&deployment(&json!({"status": counts()})), &sets);
    assert!(plan.creation.is_none());
    assert_eq!(scaled(&plan), [("web-two", 0, 1)]);
    let annotations = &plan.changes[0].patch["metadata"]["annotations"];
    assert_eq!(annotations[REVISION], "4");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(plan.revision.as_deref(), Some("4"));
    assert_eq!(reason(&plan.status.unwrap(), PROGRESSING), "FoundNewReplicaSet");
}

#[test]
fn recreate_waits_for_old_pods() {
    let deployment = deployment(&json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {}}}}));
    let plan_with = |old: &Arc<ReplicaSet>, has_pods: bool| {
        plan(
            &deployment,
            vec![Arc::clone(old)],
            |_| has_pods,
            NOW.parse().unwrap(),
        )
        .unwrap()
    };
    let full = set("one", 1, 2, &json!({}));
    let first = plan_with(&full, true);
    assert_eq!(
        (scaled(&first), first.creation.is_some()),
        (vec![("web-one", 2, 0)], false)
    );
    let shrinking = set("one", 1, 0, &json!({"status": {"replicas": 1}}));
    assert!(plan_with(&shrinking, false).creation.is_none());
    let empty = set("one", 1, 0, &json!({}));
    assert!(plan_with(&empty, true).creation.is_none());
    assert_eq!(plan_with(&empty, false).creation.unwrap().replicas, 2);
}

#[test]
fn scales_a_paused_deployment_without_rollout() {
    let paused = deployment(&json!({"spec": {"paused": true, "replicas": 4}}));
    let plan = planned(&paused, &[set("one", 1, 2, &json!({}))]);
    assert!(plan.creation.is_none());
    assert_eq!(scaled(&plan), [("web-one", 2, 4)]);
    let status = plan.status.unwrap();
    assert_eq!(
        (reason(&status, PROGRESSING), message(&status, PROGRESSING)),
        ("DeploymentPaused", "Deployment is paused")
    );
    let conditions = json!([progressing("Unknown", "DeploymentPaused", "2026-01-01T00:00:00Z")]);
    let resumed = deployment(&json!({"status": {"conditions": conditions}}));
    let status = planned(
        &resumed,
        &[set(
            "two",
            1,
            1,
            &json!({"status": {"availableReplicas": 0, "readyReplicas": 0, "replicas": 0}}),
        )],
    )
    .status
    .unwrap();
    assert_eq!(reason(&status, PROGRESSING), "DeploymentResumed");
}

#[test]
fn only_counts_a_terminating_deployment() {
    let terminating = deployment(&json!({"metadata": {"deletionTimestamp": NOW}}));
    let plan = planned(&terminating, &[set("one", 1, 2, &json!({}))]);
    assert!(plan.creation.is_none() && scaled(&plan).is_empty());
    assert_eq!(plan.status.unwrap().replicas, 2);
}

#[test]
fn deletes_old_replica_sets_beyond_history_limit() {
    let complete = json!({
        "spec": {"revisionHistoryLimit": 1},
        "status": {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 2},
    });
    let old = |image: &str, revision, more: &Value| set(image, revision, 0, more);
    let sets = [
        old("a", 1, &json!({})),
        old("b", 2, &json!({"metadata": {"deletionTimestamp": NOW}})),
        old("c", 3, &json!({"status": {"replicas": 1}})),
        old("d", 4, &json!({})),
        set("two", 5, 2, &json!({})),
    ];
    let removed = |deployment: &Deployment| -> Vec<Box<str>> {
        let removals = planned(deployment, &sets).removals;
        removals.iter().map(|set| set.metadata.name.clone()).collect()
    };
    assert_eq!(removed(&deployment(&complete)), ["web-a".into()]);
    assert!(removed(&deployment(&json!({"spec": {"revisionHistoryLimit": 1}}))).is_empty());
    let mut all = complete;
    all["spec"]["revisionHistoryLimit"] = json!(i32::MAX);
    assert!(removed(&deployment(&all)).is_empty());
}

#[test]
fn rejects_an_empty_selector() {
    let mut tree =
        json!({"metadata": {"generation": 4}, "spec": {"replicas": 1, "template": template("one")}});
    tree["spec"]["selector"] = json!({});
    let deployment: Deployment = serde_json::from_str(&tree.to_string()).unwrap();
    let plan = planned(&deployment, &[]);
    assert!(plan.selects_all && plan.creation.is_none());
    assert_eq!(plan.status.unwrap().observed_generation, 4);
}

// --- status ---

#[test]
fn sums_counts_of_all_replica_sets() {
    let terminating = json!({"status": {"terminatingReplicas": 3, "availableReplicas": 1}});
    let sets = [
        set("one", 1, 2, &terminating),
        set("two", 2, 1, &json!({"status": {"terminatingReplicas": 1}})),
    ];
    let status = planned(
        &deployment(&json!({"metadata": {"deletionTimestamp": NOW}})),
        &sets,
    )
    .status
    .unwrap();
    assert_eq!(
        DeploymentStatus {
            conditions: Vec::new(),
            ..status.clone()
        },
        DeploymentStatus {
            observed_generation: 2,
            replicas: 3,
            updated_replicas: 1,
            ready_replicas: 3,
            available_replicas: 2,
            unavailable_replicas: 1,
            terminating_replicas: Some(4),
            collision_count: None,
            conditions: Vec::new(),
        }
    );
    assert_eq!(reason(&status, AVAILABLE), "MinimumReplicasAvailable");
    let silent = json!({"status": {"terminatingReplicas": null, "availableReplicas": 0}});
    let silent: Vec<_> = [set("two", 2, 2, &silent)].into();
    let status = planned(&deployment(&json!({})), &silent).status.unwrap();
    assert_eq!(
        (status.terminating_replicas, reason(&status, AVAILABLE)),
        (None, "MinimumReplicasUnavailable")
    );
}

#[test]
fn reports_progress_completion_and_timeout() {
    let pending = json!({"status": {"readyReplicas": 0, "availableReplicas": 0}});
    let known = |status: &str, reason: &str, updated: &str, replicas: u32| {
        json!({"status": {
            "replicas": replicas, "updatedReplicas": replicas,
            "conditions": [progressing(status, reason, updated)],
        }})
    };
    let long_ago = "2026-01-01T00:00:00Z";
    let lately = "2026-01-01T00:09:30Z";
    // What was said before, the set, and what is said now.
    let cases = [
        (
            known("True", "NewReplicaSetCreated", lately, 0),
            &pending,
            "ReplicaSetUpdated",
            "is progressing.",
        ),
        (
            known("True", "ReplicaSetUpdated", lately, 2),
            &pending,
            "ReplicaSetUpdated",
            "",
        ),
        (
            known("True", "ReplicaSetUpdated", long_ago, 2),
            &pending,
            "ProgressDeadlineExceeded",
            "has timed out progressing.",
        ),
        (
            known("False", "ProgressDeadlineExceeded", long_ago, 2),
            &pending,
            "ProgressDeadlineExceeded",
            "",
        ),
        (
            known("True", "NewReplicaSetAvailable", long_ago, 2),
            &pending,
            "NewReplicaSetAvailable",
            "",
        ),
        (
            known("False", "ProgressDeadlineExceeded", long_ago, 2),
            &json!({}),
            "NewReplicaSetAvailable",
            "has successfully progressed.",
        ),
    ];
    for (before, set_status, now, text) in cases {
        let plan = planned(&deployment(&before), &[set("two", 1, 2, set_status)]);
        let status = plan.status.unwrap();
        assert_eq!(reason(&status, PROGRESSING), now, "{before}");
        let text = if text.is_empty() {
            String::new()
        } else {
            format!("ReplicaSet \"web-two\" {text}")
        };
        assert_eq!(message(&status, PROGRESSING), text, "{before}");
        let waits = now == "ReplicaSetUpdated" || now == "NewReplicaSetAvailable" && set_status == &pending;
        assert_eq!(plan.requeue_after.is_some(), waits, "{before}");
    }
}

#[test]
fn has_no_progressing_condition_without_deadline() {
    let deployment = deployment(&json!({
        "spec": {"progressDeadlineSeconds": i32::MAX},
        "status": {"conditions": [progressing("True", "ReplicaSetUpdated", NOW)]},
    }));
    let plan = planned(&deployment, &[set("two", 1, 2, &json!({}))]);
    assert_eq!(
        (reason(&plan.status.unwrap(), PROGRESSING), plan.requeue_after),
        ("", None)
    );
}

#[test]
fn reports_replica_failures() {
    let failure = |why: &str| {
        let condition =
            json!({"type": REPLICA_FAILURE, "status": "True", "reason": why, "lastTransitionTime": NOW});
        json!({"status": {"conditions": [condition]}})
    };
    let sets = [
        set("one", 1, 1, &failure("Old")),
        set("two", 2, 1, &failure("New")),
    ];
    let status = planned(&deployment(&json!({})), &sets).status.unwrap();
    assert_eq!(reason(&status, REPLICA_FAILURE), "New");
    let status = planned(&deployment(&json!({})), &sets[..1]).status.unwrap();
    assert_eq!(reason(&status, REPLICA_FAILURE), "Old");
}

#[test]
fn plans_nothing_without_differences() {
    let sets = [set("two", 1, 2, &json!({}))];
    let first = deployment(&json!({"metadata": {"annotations": {REVISION: "1"}}}));
    let status = planned(&first, &sets).status.unwrap();
    let settled = Deployment { status, ..first };
    let plan = planned(&settled, &sets);
    assert!(
        plan.status.is_none()
            && plan.changes.is_empty()
            && plan.revision.is_none()
            && plan.creation.is_none()
    );
    assert_eq!(plan.requeue_after, None);
}

// --- rollback ---

#[test]
fn rolls_back_by_annotation() {
    let rollback = |to: &str, sets: &[Arc<ReplicaSet>]| {
        let asks = json!({"metadata": {"annotations": {ROLLBACK_TO: to, "cause": "two"}}});
        planned(&deployment(&asks), sets).rollback.unwrap()
    };
    let sets = [
        set(
            "one",
            1,
            0,
            &json!({"metadata": {"annotations": {"why/not": "one"}}}),
        ),
        set("two", 2, 2, &json!({})),
    ];
    for to in ["1", "0"] {
        let done = rollback(to, &sets);
        assert_eq!((done.is_warning, done.reason), (false, "DeploymentRollback"));
        assert_eq!(done.message, "Rolled back deployment \"web\" to revision 1");
        assert_eq!(
            done.steps[1..],
            [
                json!({"op": "remove", "path": "/metadata/annotations/deprecated.deployment.rollback.to"}),
                json!({"op": "remove", "path": "/metadata/annotations/cause"}),
                json!({"op": "add", "path": "/metadata/annotations/why~1not", "value": "one"}),
                json!({"op": "replace", "path": "/spec/template", "value": template("one")}),
            ]
        );
    }
    assert_eq!(rollback("2", &sets).reason, "DeploymentRollbackTemplateUnchanged");
    assert_eq!(rollback("7", &sets).reason, "DeploymentRollbackRevisionNotFound");
    assert_eq!(rollback("0", &sets[1..]).message, "Unable to find last revision.");
}

#[test]
fn writes_times_in_whole_seconds() {
    let now: Timestamp = "2026-01-01T00:10:00.75Z".parse().unwrap();
    let plan = plan(&deployment(&json!({})), Vec::new(), |_| false, now).unwrap();
    for condition in plan.status.unwrap().conditions {
        assert_eq!(condition.last_transition_time.unwrap().to_string(), NOW);
    }
}
