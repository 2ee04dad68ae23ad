use std::sync::Arc;

use k3_workloads::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    objects::StatefulSet,
    statefulset::control::{
        ObservedStatefulSet, PodIdentityAction, RevisionChoice, StatefulSetPlan, UpdateStep, complete_update,
    },
};

const NOW: &str = "2026-01-01T00:01:00Z";

/// A set of three, with changes to its spec.
fn set(more: &Value) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "db", "namespace": "shop", "uid": "s", "generation": 2},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "a"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
        "status": {"currentRevision": "old", "updateRevision": "new"},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        set["spec"][name] = value.clone();
    }
    serde_json::from_value(set).unwrap()
}

/// A pod, in a state: `ready`, `pending`, `failed`, `terminating` or `young` (ready since a moment).
fn pod(ordinal: i32, revision: &str, what: &str) -> Arc<Pod> {
    let name = format!("db-{ordinal}");
    let since = if what == "young" {
        "2026-01-01T00:00:55Z"
    } else {
        "2026-01-01T00:00:00Z"
    };
    let phase = match what {
        "pending" => "Pending",
        "failed" => "Failed",
        _ => "Running",
    };
    let is_ready = ["ready", "terminating", "young"].contains(&what);
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("u{ordinal}"), "labels": {
            "app": "a", "controller-revision-hash": revision, "statefulset.kubernetes.io/pod-name": name}},
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": since}]},
    });
    if what == "terminating" {
        pod["metadata"]["deletionTimestamp"] = NOW.into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn plan(set: &StatefulSet, pods: &[(i32, &str, &str)]) -> StatefulSetPlan {
    let pods: Vec<_> = pods
        .iter()
        .map(|(ordinal, revision, what)| pod(*ordinal, revision, what))
        .collect();
    let observed = ObservedStatefulSet {
        set,
        current: "old",
        update: "new",
        collisions: 0,
        pods: &pods,
        claims: |_: &str| None::<Arc<PersistentVolumeClaim>>,
        now: NOW.parse::<Timestamp>().unwrap(),
    };
    observed.plan()
}

/// The steps in words.
fn steps(set: &StatefulSet, pods: &[(i32, &str, &str)]) -> Vec<String> {
    let plan = plan(set, pods);
    let steps = plan.stages.iter().flatten().map(|step| match step {
        UpdateStep::Create { ordinal, which, .. } => {
            let which = if *which == RevisionChoice::Current {
                "old"
            } else {
                "new"
            };
            format!("make {ordinal} {which}")
        }
        UpdateStep::Claims { pod, .. } => format!("claims {}", pod.metadata.name),
        UpdateStep::Correct { pod, .. } => format!("correct {}", pod.metadata.name),
        UpdateStep::Delete { pod, .. } => format!("delete {}", pod.metadata.name),
    });
    steps.collect()
}

type ClaimOwnership<'a> = (&'a str, Value, &'a [(i32, &'a str, &'a str)], &'a [&'a str]);

fn check(cases: &[ClaimOwnership<'_>]) {
    for (why, spec, pods, expectations) in cases {
        assert_eq!(steps(&set(spec), pods), *expectations, "{why}");
    }
}

#[test]
fn ordered_ready_changes_one_pod_at_a_time() {
    check(&[
        ("the first one", json!({}), &[], &["make 0 new"]),
        ("waits for the first", json!({}), &[(0, "new", "pending")], &[]),
        (
            "the second one",
            json!({}),
            &[(0, "new", "ready")],
            &["make 1 new"],
        ),
        (
            "fills a hole first",
            json!({}),
            &[(0, "new", "ready"), (2, "new", "ready")],
            &["make 1 new"],
        ),
        (
            "waits for a terminating one",
            json!({}),
            &[(0, "new", "terminating")],
            &[],
        ),
        (
            "one that failed",
            json!({}),
            &[(0, "new", "failed")],
            &["delete db-0"],
        ),
        (
            "not yet available",
            json!({"minReadySeconds": 10}),
            &[(0, "new", "young")],
            &[],
        ),
        (
            "the last one first",
            json!({"replicas": 1}),
            &[(0, "new", "ready"), (1, "new", "ready"), (2, "new", "ready")],
            &["delete db-2"],
        ),
        (
            "not beside a terminating one",
            json!({"replicas": 1}),
            &[
                (0, "new", "ready"),
                (1, "new", "ready"),
                (2, "new", "terminating"),
            ],
            &[],
        ),
        (
            "not while another one is not well",
            json!({"replicas": 0}),
            &[(0, "new", "pending"), (1, "new", "pending")],
            &[],
        ),
        (
            "but the first that is not well",
            json!({"replicas": 1}),
            &[(0, "new", "ready"), (1, "new", "pending")],
            &["delete db-1"],
        ),
        (
            "not while a wanted one is not well",
            json!({"replicas": 1}),
            &[(0, "new", "pending"), (1, "new", "ready")],
            &[],
        ),
        (
            "numbers that begin later",
            json!({"replicas": 2, "ordinals": {"start": 5}}),
            &[(0, "new", "ready"), (5, "new", "ready")],
            &["make 6 new"],
        ),
        (
            "numbers before the first are too many",
            json!({"replicas": 1, "ordinals": {"start": 5}}),
            &[(0, "new", "ready"), (5, "new", "ready")],
            &["delete db-0"],
        ),
    ]);
}

#[test]
fn parallel_changes_all_pods_at_once() {
    let parallel = |more: Value| {
        let mut spec = more;
        spec["podManagementPolicy"] = "Parallel".into();
        spec
    };
    check(&[
        (
            "all",
            parallel(json!({})),
            &[],
            &["make 0 new", "make 1 new", "make 2 new"],
        ),
        (
            "whatever the others are",
            parallel(json!({})),
            &[(0, "new", "pending"), (1, "new", "failed")],
            &["delete db-1", "make 2 new"],
        ),
        (
            "all that are too many",
            parallel(json!({"replicas": 1})),
            &[
                (0, "new", "pending"),
                (1, "new", "ready"),
                (2, "new", "terminating"),
                (3, "new", "ready"),
            ],
            &["delete db-3", "delete db-1"],
        ),
        (
            "broken ones are replaced beyond the bounds",
            parallel(json!({})),
            &[(0, "old", "pending"), (1, "old", "ready"), (2, "old", "pending")],
            &["delete db-2", "delete db-0"],
        ),
        (
            "good ones within them",
            parallel(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}})),
            &[(0, "old", "ready"), (1, "old", "ready"), (2, "new", "pending")],
            &["delete db-1"],
        ),
    ]);
}

#[test]
fn rolling_update_starts_at_the_highest_ordinal() {
    let old = &[(0, "old", "ready"), (1, "old", "ready"), (2, "old", "ready")][..];
    let rolling =
        |bounds: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": bounds}});
    check(&[
        ("one at a time", rolling(json!({})), old, &["delete db-2"]),
        (
            "two at a time",
            rolling(json!({"maxUnavailable": 2})),
            old,
            &["delete db-2", "delete db-1"],
        ),
        (
            "a part of them",
            rolling(json!({"maxUnavailable": "67%"})),
            old,
            &["delete db-2", "delete db-1"],
        ),
        (
            "at least one",
            rolling(json!({"maxUnavailable": "1%"})),
            old,
            &["delete db-2"],
        ),
        (
            "down to the partition",
            rolling(json!({"partition": 3})),
            old,
            &[],
        ),
        (
            "on delete",
            json!({"updateStrategy": {"type": "OnDelete"}}),
            old,
            &[],
        ),
        (
            "waits",
            rolling(json!({})),
            &[(0, "old", "ready"), (1, "old", "ready"), (2, "new", "pending")],
            &[],
        ),
        (
            "continues",
            rolling(json!({})),
            &[(0, "old", "ready"), (1, "old", "ready"), (2, "new", "ready")],
            &["delete db-1"],
        ),
        (
            "missing ones before the partition are old",
            rolling(json!({"partition": 2})),
            &[(0, "old", "ready"), (2, "new", "ready")],
            &["make 1 old"],
        ),
        (
            "others are new",
            rolling(json!({"partition": 1})),
            &[(0, "old", "ready"), (2, "new", "ready")],
            &["make 1 new"],
        ),
    ]);
}

#[test]
fn restores_missing_labels() {
    let mut bare = (*pod(0, "new", "ready")).clone();
    let mut labels = bare.metadata.labels.to_map();
    labels.remove("statefulset.kubernetes.io/pod-name");
    bare.metadata.labels = labels.into_iter().collect();
    let set = set(&json!({"replicas": 1}));
    let pods = [Arc::new(bare)];
    let observed = ObservedStatefulSet {
        set: &set,
        current: "new",
        update: "new",
        collisions: 0,
        pods: &pods,
        claims: |_: &str| None::<Arc<PersistentVolumeClaim>>,
        now: NOW.parse::<Timestamp>().unwrap(),
    };
    let plan = observed.plan();
    let steps: Vec<_> = plan.stages.iter().flatten().collect();
    assert!(
        matches!(
            &*steps,
            [UpdateStep::Correct {
                identity: PodIdentityAction::Restore,
                ..
            }]
        ),
        "{steps:?}"
    );
}

#[test]
fn counts_pods_by_state() {
    let set = set(&json!({"minReadySeconds": 10}));
    let pods = [
        (0, "old", "ready"),
        (1, "new", "young"),
        (2, "new", "terminating"),
        (7, "old", "pending"),
    ];
    let reported = plan(&set, &pods);
    let status = &reported.status;
    assert_eq!(
        [
            status.replicas,
            status.ready_replicas,
            status.available_replicas,
            status.current_replicas,
            status.updated_replicas,
        ],
        [4, 3, 2, 2, 1]
    );
    assert_eq!(
        (&*status.current_revision, &*status.update_revision),
        ("old", "new")
    );
    assert_eq!((status.observed_generation, status.collision_count), (2, Some(0)));
    assert_eq!(reported.requeue_after, Some(std::time::Duration::from_secs(5)));
}

#[test]
fn completes_a_rollout() {
    let set = set(&json!({}));
    let new = [(0, "new", "ready"), (1, "new", "ready"), (2, "new", "ready")];
    let status = complete_update(&set, plan(&set, &new).status, 0);
    assert_eq!((status.current_replicas, &*status.current_revision), (3, "new"));
    let old = [(0, "old", "ready"), (1, "old", "ready"), (2, "old", "ready")];
    let status = complete_update(&set, plan(&set, &old).status, 1);
    assert_eq!((status.current_replicas, &*status.current_revision), (2, "old"));
}

#[test]
fn only_counts_a_terminating_set() {
    let mut set = set(&json!({}));
    set.metadata.deletion_timestamp = Some(NOW.parse().unwrap());
    let plan = plan(&set, &[(0, "new", "ready")]);
    assert!(plan.stages.is_empty());
    assert_eq!(plan.status.replicas, 1);
}
