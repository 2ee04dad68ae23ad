//! Budgets, against an API in memory.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Event, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::core::ApiResource;
use kubecontroller::testing::{eventually, eventually_within};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, STATEFUL_SETS},
    testing::{Scenario, TestCluster},
};

fn budget(name: &str, app: &str, rule: &Value) -> Value {
    let mut spec = rule.clone();
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})
}

/// A pod that is ready, and controlled by an owner if there is one.
fn pod(name: &str, app: &str, owner: Option<&Value>) -> Value {
    let owners: Vec<Value> = owner
        .map(|owner| {
            json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "controller": true})
        })
        .into_iter()
        .collect();
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}, "ownerReferences": owners},
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn owner(
    cluster: &TestCluster,
    resource: &kubecontroller::resource::Resource,
    name: &str,
    replicas: i32,
    above: Option<&Value>,
) -> Value {
    let mut owned = pod(name, "", above);
    owned["metadata"]["labels"] = json!({});
    owned["spec"] = json!({"replicas": replicas, "selector": {}, "template": {}, "serviceName": ""});
    owned["status"] = json!({});
    let mut written = cluster.put(resource, owned);
    written["apiVersion"] = json!(resource.api_version());
    written["kind"] = json!(resource.kind);
    written
}

/// How many are healthy, demanded, expected and may be missed, and why.
fn reported_status(cluster: &TestCluster, name: &str) -> Option<Value> {
    let status = cluster.api.get::<PodDisruptionBudget>("shop", name)?.status?;
    let condition = status.conditions?.pop()?;
    let counts = [
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
        status.disruptions_allowed,
    ];
    Some(json!({"counts": counts, "reason": condition.reason, "message": condition.message}))
}

fn reports_counts(cluster: &TestCluster, name: &str, counts: [i32; 4]) -> Option<()> {
    (reported_status(cluster, name)?["counts"] == json!(counts)).then_some(())
}

/// A budget of numbers and one of parts, while a pod is deleted and another created.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        let deployment = owner(cluster, &DEPLOYMENTS, "web", 4, None);
        let set = owner(cluster, &REPLICA_SETS, "web-1", 4, Some(&deployment));
        for name in ["a", "b", "c"] {
            cluster.put(&PODS, pod(name, "web", Some(&set)));
        }
        cluster.put(
            &POD_DISRUPTION_BUDGETS,
            budget("least", "web", &json!({"minAvailable": 2})),
        );
        cluster.put(
            &POD_DISRUPTION_BUDGETS,
            budget("most", "web", &json!({"maxUnavailable": "50%"})),
        );
    },
    play: |cluster| {
        let is_counted =
            reports_counts(cluster, "least", [3, 2, 3, 1]).and(reports_counts(cluster, "most", [3, 2, 4, 1]));
        if is_counted.is_some() {
            cluster.api.remove::<Pod>("shop", "c");
        }
    },
    end: |cluster| {
        let min = reported_status(cluster, "least")?;
        let max = reported_status(cluster, "most")?;
        let is_done =
            reports_counts(cluster, "least", [2, 2, 2, 0]).and(reports_counts(cluster, "most", [2, 2, 4, 0]));
        is_done.map(|()| json!([min, max]))
    },
};

#[tokio::test(start_paused = true)]
async fn updates_budgets_with_their_pods() {
    let (end, writes) = STORY.run().await;
    assert_eq!(end[0]["reason"], "InsufficientPods");
    assert_eq!(writes, 4);
}

#[tokio::test(start_paused = true)]
async fn updates_budgets_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn uses_scale_of_any_kind() {
    let cluster = TestCluster::new();
    let kind = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Fleet".into(),
        plural: "fleets".into(),
    };
    cluster
        .api
        .register_dynamic(&kind, kubecontroller::resource::ResourceScope::Namespaced);
    let mut fleet = cluster.api.put_value(
        &kind,
        json!({"metadata": {"name": "f", "namespace": "shop"}, "spec": {"replicas": 6}}),
    );
    fleet["apiVersion"] = json!("example.com/v1");
    fleet["kind"] = json!("Fleet");
    let stateful = owner(&cluster, &STATEFUL_SETS, "db", 2, None);
    cluster.put(&PODS, pod("a", "web", Some(&fleet)));
    cluster.put(&PODS, pod("b", "web", Some(&stateful)));
    cluster.put(
        &POD_DISRUPTION_BUDGETS,
        budget("most", "web", &json!({"maxUnavailable": 7})),
    );
    let _running = cluster.start("k3", make);
    eventually(|| async { reports_counts(&cluster, "most", [2, 1, 8, 1]) }).await;
}

#[tokio::test(start_paused = true)]
async fn fails_safe_without_scale() {
    let cluster = TestCluster::new();
    let mut ship =
        json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "s", "uid": "u"}});
    cluster.put(&PODS, pod("a", "lost", Some(&ship)));
    ship["kind"] = json!("StatefulSet");
    ship["apiVersion"] = json!("apps/v1");
    cluster.put(&PODS, pod("b", "deleted", Some(&ship)));
    cluster.put(&PODS, pod("c", "alone", None));
    for app in ["lost", "deleted", "alone", "none"] {
        cluster.put(
            &POD_DISRUPTION_BUDGETS,
            budget(app, app, &json!({"maxUnavailable": 1})),
        );
    }
    let _running = cluster.start("k3", make);
    let lost = eventually(|| async { reported_status(&cluster, "lost") }).await;
    assert_eq!(lost["reason"], "SyncFailed");
    assert_eq!(
        lost["message"],
        "no matches for kind \"Ship\" in version \"example.com/v1\""
    );
    eventually(|| async { reports_counts(&cluster, "alone", [1, 0, 0, 0]) }).await;
    eventually(|| async { reports_counts(&cluster, "none", [0, 0, 0, 0]) }).await;
    let reasons = || {
        let events = cluster.api.list::<Event>().into_iter();
        let mut reasons: Vec<_> = events
            .filter_map(|event| Some((event.involved_object.name?, event.reason?)))
            .collect();
        reasons.sort();
        reasons.dedup();
        (reasons.len() == 4).then_some(reasons)
    };
    let reasons = eventually(|| async { reasons() }).await;
    let expected = [
        ("alone", "UnmanagedPods"),
        ("deleted", "CalculateExpectedPodCountFailed"),
        ("lost", "CalculateExpectedPodCountFailed"),
        ("none", "NoPods"),
    ];
    assert_eq!(
        reasons,
        expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn drops_disrupted_pods_after_timeout() {
    let cluster = TestCluster::new();
    cluster.put(&PODS, pod("a", "web", None));
    cluster.put(&PODS, pod("b", "web", None));
    let mut evicting = budget("least", "web", &json!({"minAvailable": 1}));
    let time = json!("2026-01-01T00:00:30Z");
    evicting["status"] = json!({"disruptedPods": {"a": time}, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": 0});
    cluster.put(&POD_DISRUPTION_BUDGETS, evicting);
    let _running = cluster.start("k3", make);
    eventually(|| async { reports_counts(&cluster, "least", [1, 1, 2, 0]) }).await;
    tokio::time::sleep(Duration::from_secs(115)).await;
    assert_eq!(reports_counts(&cluster, "least", [1, 1, 2, 0]), Some(()));
    eventually(|| async { reports_counts(&cluster, "least", [2, 1, 2, 1]) }).await;
    let status = cluster
        .api
        .get::<PodDisruptionBudget>("shop", "least")
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.disrupted_pods, None);
    let event = eventually(|| async { cluster.api.list::<Event>().pop() }).await;
    let message = "Pod was expected by PDB shop/shop to be deleted but it wasn't";
    assert_eq!(
        (event.reason.as_deref(), event.message.as_deref()),
        (Some("NotDeleted"), Some(message))
    );
}

#[tokio::test(start_paused = true)]
async fn removes_stale_disruption_target() {
    let cluster = TestCluster::new();
    let mut target = pod("a", "web", None);
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:30Z"});
    target["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(condition);
    cluster.put(&PODS, target);
    let _running = cluster.start("k3", make);
    let look = || {
        let conditions = cluster.api.get::<Pod>("shop", "a")?.status?.conditions?;
        let target = conditions
            .iter()
            .find(|condition| condition.type_ == "DisruptionTarget")?;
        assert_eq!(conditions.len(), 2);
        (target.status == "False").then(|| (target.reason.clone(), target.last_transition_time.clone()))
    };
    let (reason, since) = eventually_within(Duration::from_mins(3), || async { look() }).await;
    assert_eq!(
        (reason, since.unwrap().0.to_string().as_str()),
        (None, "2026-01-01T00:02:30Z")
    );
}
