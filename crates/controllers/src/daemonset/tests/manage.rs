use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_workloads::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    daemonset::{
        manage::{DaemonSetPlan, ObservedDaemonSet, PlanProgress},
        placement::NodeEligibility,
        pod_template::TemplateRevision,
    },
    objects::DaemonSet,
};

const NOW: &str = "2026-01-01T00:01:00Z";

fn set(bounds: &Value) -> DaemonSet {
    let set = json!({
        "metadata": {"name": "d", "namespace": "shop", "uid": "s", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": bounds}},
    });
    serde_json::from_value(set).unwrap()
}

/// A pod on a node, in a state: `ready`, `pending`, `failed`, `succeeded`, `terminating`, or `waiting` for the node.
fn pod(name: &str, node: &str, hash: &str, what: &str) -> Arc<Pod> {
    let phase = match what {
        "pending" | "waiting" => "Pending",
        "failed" => "Failed",
        "succeeded" => "Succeeded",
        _ => "Running",
    };
    let is_ready = ["ready", "terminating"].contains(&what);
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"controller-revision-hash": hash},
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    if what == "waiting" {
        pod["spec"] = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}});
    }
    if what == "terminating" {
        pod["metadata"]["deletionTimestamp"] = NOW.into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// Why, the bounds, the node, the pods, and what is done.
type ManageCase<'a> = (
    &'a str,
    Value,
    (&'a str, NodeEligibility),
    PodRows<'a>,
    &'a [&'a str],
);
type PodRows<'a> = &'a [(&'a str, &'a str, &'a str, &'a str)];

fn with<T>(
    bounds: &Value,
    nodes: &[(&str, NodeEligibility)],
    pods: PodRows<'_>,
    then: impl FnOnce(&ObservedDaemonSet<'_>) -> T,
) -> T {
    let set = set(bounds);
    let revision = TemplateRevision::new(&set, "new");
    let nodes = nodes
        .iter()
        .map(|(node, fit)| (Box::from(*node), *fit))
        .collect::<BTreeMap<_, _>>();
    let pods: Vec<_> = pods
        .iter()
        .map(|(name, node, hash, what)| pod(name, node, hash, what))
        .collect();
    then(&ObservedDaemonSet::new(
        &set,
        &revision,
        nodes,
        &pods,
        NOW.parse::<Timestamp>().unwrap(),
    ))
}

fn rolling_update(observed: &ObservedDaemonSet<'_>) -> DaemonSetPlan {
    observed.rolling_update()
}

fn describe(plan: &DaemonSetPlan) -> Vec<String> {
    let written = plan.make.iter().map(|node| format!("make {node}"));
    let deleted = plan
        .delete
        .iter()
        .map(|pod| format!("delete {}", pod.metadata.name));
    written.chain(deleted).collect()
}

const SURGE: fn() -> Value = || json!({"maxSurge": 1, "maxUnavailable": 0});
const PLAIN: fn() -> Value = || json!({"maxSurge": 0, "maxUnavailable": 1});

#[test]
fn keeps_one_pod_per_eligible_node() {
    let runs = ("n1", NodeEligibility::ShouldRun);
    let stays = ("n1", NodeEligibility::ShouldContinueRunning);
    let no = ("n1", NodeEligibility::Neither);
    let cases: [ManageCase<'_>; 15] = [
        ("missing", PLAIN(), runs, &[], &["make n1"]),
        ("none is sent", PLAIN(), stays, &[], &[]),
        (
            "not wanted",
            PLAIN(),
            no,
            &[("a", "n1", "new", "ready"), ("b", "n1", "new", "terminating")],
            &["delete a"],
        ),
        ("may stay", PLAIN(), stays, &[("a", "n1", "new", "ready")], &[]),
        ("is there", PLAIN(), runs, &[("a", "n1", "old", "ready")], &[]),
        (
            "is on its way",
            PLAIN(),
            runs,
            &[("a", "n1", "new", "waiting")],
            &[],
        ),
        (
            "terminating",
            PLAIN(),
            runs,
            &[("a", "n1", "new", "terminating")],
            &[],
        ),
        (
            "terminating, but surge is allowed",
            SURGE(),
            runs,
            &[("a", "n1", "new", "terminating")],
            &["make n1"],
        ),
        (
            "failed",
            PLAIN(),
            runs,
            &[("a", "n1", "new", "failed")],
            &["delete a"],
        ),
        (
            "succeeded",
            PLAIN(),
            runs,
            &[("a", "n1", "new", "succeeded")],
            &["delete a"],
        ),
        (
            "two",
            PLAIN(),
            runs,
            &[("b", "n1", "new", "ready"), ("a", "n1", "new", "ready")],
            &["delete b"],
        ),
        (
            "two of which one waits",
            PLAIN(),
            runs,
            &[("a", "n1", "new", "waiting"), ("b", "n1", "new", "ready")],
            &["delete a"],
        ),
        (
            "old and new beside each other",
            SURGE(),
            runs,
            &[("a", "n1", "old", "ready"), ("b", "n1", "new", "pending")],
            &[],
        ),
        (
            "the new one works",
            SURGE(),
            runs,
            &[("a", "n1", "old", "ready"), ("b", "n1", "new", "ready")],
            &["delete a"],
        ),
        (
            "the old one does not",
            SURGE(),
            runs,
            &[("a", "n1", "old", "pending"), ("b", "n1", "new", "pending")],
            &["delete a"],
        ),
    ];
    for (why, bounds, node, pods, expectations) in cases {
        let plan = with(&bounds, &[node], pods, |observed| observed.manage(|_| None));
        assert_eq!(describe(&plan), expectations, "{why}");
    }
}

#[test]
fn deletes_pods_waiting_for_a_deleted_node() {
    let pods: PodRows<'_> = &[("a", "n9", "new", "waiting"), ("b", "n9", "new", "ready")];
    let plan = with(&PLAIN(), &[], pods, |observed| observed.manage(|_| None));
    assert_eq!(describe(&plan), ["delete a"]);
}

#[test]
fn backs_off_for_failed_pods() {
    let pods: PodRows<'_> = &[("a", "n1", "new", "failed")];
    let pause = Duration::from_secs(4);
    let plan = with(
        &PLAIN(),
        &[("n1", NodeEligibility::ShouldRun)],
        pods,
        |observed| observed.manage(|_| Some(pause)),
    );
    assert!(plan.is_empty() && plan.events.is_empty() && plan.failed.is_empty());
    assert_eq!(plan.requeue_after, Some(pause));
    let plan = with(
        &PLAIN(),
        &[("n1", NodeEligibility::ShouldRun)],
        pods,
        |observed| observed.manage(|_| None),
    );
    assert_eq!(plan.failed, ["n1".into()]);
    let message = "Found failed daemon pod shop/a on node n1, will try to kill it";
    assert_eq!(
        plan.events,
        [crate::event_message::EventMessage::warning(
            "FailedDaemonPod",
            message
        )]
    );
}

#[test]
fn replaces_old_pods_within_bounds() {
    let three = [
        ("n1", NodeEligibility::ShouldRun),
        ("n2", NodeEligibility::ShouldRun),
        ("n3", NodeEligibility::ShouldRun),
    ];
    let old: PodRows<'_> = &[
        ("a", "n1", "old", "ready"),
        ("b", "n2", "old", "ready"),
        ("c", "n3", "old", "ready"),
    ];
    let cases: [(&str, Value, PodRows<'_>, &[&str]); 9] = [
        ("one at a time", PLAIN(), old, &["delete a"]),
        (
            "two at a time",
            json!({"maxUnavailable": 2}),
            old,
            &["delete a", "delete b"],
        ),
        (
            "a part, rounded up",
            json!({"maxUnavailable": "34%"}),
            old,
            &["delete a", "delete b"],
        ),
        ("at least one", json!({"maxUnavailable": 0}), old, &["delete a"]),
        (
            "waits for the new one",
            PLAIN(),
            &[
                ("a", "n1", "new", "pending"),
                ("b", "n2", "old", "ready"),
                ("c", "n3", "old", "ready"),
            ],
            &[],
        ),
        (
            "broken ones are not waited for",
            PLAIN(),
            &[
                ("a", "n1", "new", "pending"),
                ("b", "n2", "old", "pending"),
                ("c", "n3", "old", "ready"),
            ],
            &["delete b"],
        ),
        ("beside each other", SURGE(), old, &["make n1"]),
        (
            "beside broken ones at once",
            SURGE(),
            &[
                ("a", "n1", "old", "pending"),
                ("b", "n2", "old", "ready"),
                ("c", "n3", "old", "ready"),
            ],
            &["make n1", "make n2"],
        ),
        (
            "no more than so many",
            SURGE(),
            &[
                ("a", "n1", "old", "ready"),
                ("x", "n1", "new", "pending"),
                ("b", "n2", "old", "ready"),
                ("c", "n3", "old", "ready"),
            ],
            &[],
        ),
    ];
    for (why, bounds, pods, expectations) in cases {
        assert_eq!(
            describe(&with(&bounds, &three, pods, rolling_update)),
            expectations,
            "{why}"
        );
    }
}

#[test]
fn removes_pods_from_ineligible_nodes_when_others_are_available() {
    let nodes = [
        ("n1", NodeEligibility::ShouldContinueRunning),
        ("n2", NodeEligibility::ShouldRun),
    ];
    let alone: PodRows<'_> = &[("a", "n1", "old", "ready"), ("b", "n2", "new", "pending")];
    assert_eq!(
        describe(&with(&SURGE(), &nodes, alone, rolling_update)),
        Vec::<String>::new()
    );
    let both: PodRows<'_> = &[("a", "n1", "old", "ready"), ("b", "n2", "new", "ready")];
    assert_eq!(
        describe(&with(&SURGE(), &nodes, both, rolling_update)),
        ["delete a"]
    );
}

#[test]
fn counts_nodes_in_the_status() {
    let nodes = [
        ("n1", NodeEligibility::ShouldRun),
        ("n2", NodeEligibility::ShouldRun),
        ("n3", NodeEligibility::ShouldRun),
        ("n4", NodeEligibility::Neither),
        ("n5", NodeEligibility::ShouldContinueRunning),
    ];
    let pods: PodRows<'_> = &[
        ("a", "n1", "new", "ready"),
        ("b", "n2", "old", "pending"),
        ("d", "n4", "old", "terminating"),
        ("e", "n5", "new", "ready"),
    ];
    let status = with(&PLAIN(), &nodes, pods, |observed| {
        observed.status(PlanProgress::CarriedOut, None)
    });
    let counts = [
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_misscheduled,
        status.number_ready,
        status.number_available,
        status.number_unavailable,
        status.updated_number_scheduled,
    ];
    assert_eq!(counts, [3, 2, 2, 1, 1, 2, 1]);
    assert_eq!(status.observed_generation, 2);
    let waiting = with(&PLAIN(), &nodes, pods, |observed| {
        observed.status(PlanProgress::Waiting, None)
    });
    assert_eq!(waiting.observed_generation, 0);
}
