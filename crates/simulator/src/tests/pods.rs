//! Pods on simulated nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::cluster::{CrashScenario, TestCluster};

/// Type, status, reason and message of each condition.
fn conditions(pod: &Value) -> Vec<[String; 4]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = pod["status"]["conditions"].as_array().unwrap().iter();
    let fields =
        |condition: &Value| ["type", "status", "reason", "message"].map(|name| text(&condition[name]));
    conditions.map(fields).collect()
}

fn has_phase(phase: &str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == phase
}

#[tokio::test(start_paused = true)]
async fn writes_pod_status_as_the_kubelet_does() {
    let cluster = TestCluster::new();
    cluster.create_pod(
        "web",
        json!({"initContainers": [
            {"name": "prepare", "image": "prepare:1"},
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
        ]}),
    );
    let _running = cluster.start("one", 1, "");
    let pod = cluster.wait_until("web", has_phase("Running")).await;
    let status = &pod["status"];
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let began = &status["startTime"];
    assert_eq!(began, "2026-01-01T00:00:00Z");
    assert_eq!(
        (&status["hostIP"], &status["hostIPs"]),
        (&json!("198.18.0.1"), &json!([{"ip": "198.18.0.1"}]))
    );
    assert!(status["podIP"].as_str().unwrap().starts_with("198.19.0."));
    assert_eq!(status["podIPs"], json!([{"ip": status["podIP"]}]));
    let expected = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let expected = expected.map(|kind| [kind, "True", "", ""].map(str::to_owned));
    assert_eq!(conditions(&pod), expected);
    assert_eq!(
        status["containerStatuses"],
        json!([{
            "name": "web", "image": "web:1", "imageID": "simulated://web:1", "containerID": format!("simulated://{uid}/web/0"),
            "ready": true, "started": true, "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": began}},
        }])
    );
    let done = json!({"terminated": {"containerID": format!("simulated://{uid}/prepare/0"), "exitCode": 0,
        "reason": "Completed", "startedAt": began, "finishedAt": began}});
    let init = &status["initContainerStatuses"];
    assert_eq!(
        (&init[0]["state"], &init[0]["ready"], &init[0]["started"]),
        (&done, &json!(true), &json!(false))
    );
    assert_eq!(
        (&init[1]["state"], &init[1]["ready"], &init[1]["started"]),
        (
            &json!({"running": {"startedAt": began}}),
            &json!(true),
            &json!(true)
        )
    );
}

#[tokio::test(start_paused = true)]
async fn pod_addresses_are_unrouted_whatever_the_pod_cidr() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 1, "");
    cluster.wait_until_nodes_ready(1).await;
    cluster
        .api
        .edit::<k8s_openapi::api::core::v1::Node>("", "simulated-0", |node| {
            node.spec.get_or_insert_default().pod_cidrs = Some(vec!["10.244.7.0/24".to_owned()]);
        });
    for pod in 0..100 {
        cluster.create_pod(&format!("pod-{pod}"), json!({}));
    }
    cluster.create_pod("host", json!({"hostNetwork": true}));
    let mut seen = std::collections::HashSet::new();
    for pod in 0..100 {
        let pod = cluster
            .wait_until(&format!("pod-{pod}"), has_phase("Running"))
            .await;
        let ip = pod["status"]["podIP"].as_str().unwrap().to_owned();
        assert!(ip.starts_with("198.19.0."), "{ip}");
        assert!(seen.insert(ip.clone()), "{ip} is assigned twice");
    }
    let pod = cluster.wait_until("host", has_phase("Running")).await;
    assert_eq!(pod["status"]["podIP"], "198.18.0.1");
}

#[tokio::test(start_paused = true)]
async fn delays_running_and_ready() {
    let cluster = TestCluster::new();
    cluster.create_pod("web", json!({"initContainers": [{"name": "prepare"}]}));
    let _running = cluster.start("one", 1, "pods: [{run: 5s, ready: {after: 10s}}]");
    let pod = cluster
        .wait_until("web", |pod| pod["status"]["startTime"].is_string())
        .await;
    assert_eq!(pod["status"]["phase"], "Pending");
    let unready = "containers with unready status: [web]";
    assert_eq!(
        conditions(&pod),
        [
            [
                "PodReadyToStartContainers",
                "False",
                "PodSandboxNotReady",
                "no pod sandbox exists"
            ],
            [
                "Initialized",
                "False",
                "ContainersNotInitialized",
                "containers with incomplete status: [prepare]"
            ],
            ["Ready", "False", "ContainersNotReady", unready],
            ["ContainersReady", "False", "ContainersNotReady", unready],
            ["PodScheduled", "True", "", ""],
        ]
    );
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    assert_eq!(pod["status"]["containerStatuses"][0]["state"], waiting);
    let pod = cluster.wait_until("web", has_phase("Running")).await;
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"],
        "2026-01-01T00:00:05Z"
    );
    assert_eq!(
        conditions(&pod)[2],
        ["Ready", "False", "ContainersNotReady", unready]
    );
    let pod = cluster
        .wait_until("web", |pod| conditions(pod)[2][1] == "True")
        .await;
    assert_eq!(
        pod["status"]["conditions"][2]["lastTransitionTime"],
        "2026-01-01T00:00:15Z"
    );
}

#[tokio::test(start_paused = true)]
async fn jitter_is_reproducible() {
    let mut starts = Vec::new();
    for _ in 0..2 {
        let cluster = TestCluster::new();
        for pod in 0..20 {
            cluster.create_pod_with_metadata(
                &format!("pod-{pod}"),
                json!({"uid": format!("uid-{pod}")}),
                json!({}),
            );
        }
        let _running = cluster.start("one", 1, "{seed: 3, pods: [{run: {after: 10s, jitter: 1m}}]}");
        let mut times = Vec::new();
        for pod in 0..20 {
            let pod = cluster
                .wait_until(&format!("pod-{pod}"), has_phase("Running"))
                .await;
            let started = &pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
            times.push(started.as_str().unwrap().to_owned());
        }
        starts.push(times);
    }
    assert_eq!(starts[0], starts[1]);
    let distinct: std::collections::BTreeSet<_> = starts[0].iter().collect();
    assert!(distinct.len() > 12, "{distinct:?}");
    assert!(*distinct.first().unwrap().as_str() >= *"2026-01-01T00:00:10Z");
    assert!(*distinct.last().unwrap().as_str() <= *"2026-01-01T00:01:11Z");
}

#[tokio::test(start_paused = true)]
async fn pod_phase_follows_exit_codes() {
    let cluster = TestCluster::new();
    let spec = |policy: &str| json!({"restartPolicy": policy});
    let labelled = |code: u8| json!({"labels": {"code": code.to_string()}});
    cluster.create_pod_with_metadata("well", labelled(0), spec("OnFailure"));
    cluster.create_pod_with_metadata("badly", labelled(3), spec("Never"));
    let job =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1", "controller": true}]);
    cluster.create_pod_with_metadata("of-a-job", json!({"ownerReferences": job}), spec("Never"));
    let rules = "pods: [{match: {labels: code=0}, exit: {after: 5s}}, {match: {labels: code=3}, exit: {after: 5s, code: 3}}]";
    let _running = cluster.start("one", 1, rules);
    let pod = cluster.wait_until("well", has_phase("Succeeded")).await;
    assert_eq!(
        conditions(&pod),
        [
            [
                "PodReadyToStartContainers",
                "False",
                "PodSandboxNotReady",
                "pod sandbox is not ready"
            ],
            ["Initialized", "True", "PodCompleted", ""],
            ["Ready", "False", "PodCompleted", ""],
            ["ContainersReady", "False", "PodCompleted", ""],
            ["PodScheduled", "True", "", ""],
        ]
    );
    let pod = cluster.wait_until("badly", has_phase("Failed")).await;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["exitCode"], &ended["reason"]),
        (&json!(3), &json!("Error"))
    );
    assert_eq!(ended["startedAt"], "2026-01-01T00:00:00Z");
    assert_eq!(ended["finishedAt"], "2026-01-01T00:00:05Z");
    assert_eq!(conditions(&pod)[2], ["Ready", "False", "PodFailed", ""]);
    cluster.wait_until("of-a-job", has_phase("Succeeded")).await;
    // Finished pods are not written any more.
    sleep(Duration::from_mins(1)).await;
    cluster.delete("well").await;
    cluster.wait_until_deleted("well").await;
}

#[tokio::test(start_paused = true)]
async fn crashing_containers_back_off() {
    let cluster = TestCluster::new();
    cluster.create_pod("web", json!({}));
    let _running = cluster.start("one", 1, "pods: [{exit: {after: 2s, code: 1, times: 7}}]");
    let count = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["restartCount"]
            .as_u64()
            .unwrap_or(0)
    };
    let mut at = 0;
    for (restarts, wait) in [(1, 0), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 300)] {
        at += 2;
        if wait > 0 {
            let is_waiting = |pod: &Value| {
                pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
                    && count(pod) == restarts - 1
            };
            let pod = cluster.wait_until("web", is_waiting).await;
            let uid = pod["metadata"]["uid"].as_str().unwrap();
            let wait = if wait < 60 {
                format!("{wait}s")
            } else {
                format!("{}m{}s", wait / 60, wait % 60)
            };
            let status = &pod["status"]["containerStatuses"][0];
            assert_eq!(
                status["state"]["waiting"]["message"],
                format!("back-off {wait} restarting failed container=web pod=web_shop({uid})")
            );
            assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
            assert_eq!(
                (&pod["status"]["phase"], &status["ready"]),
                (&json!("Running"), &json!(false))
            );
        }
        at += wait;
        let pod = cluster.wait_until("web", |pod| count(pod) == restarts).await;
        let since = cluster
            .now()
            .duration_since("2026-01-01T00:00:00Z".parse().unwrap())
            .as_secs();
        assert!((at..=at + 1).contains(&since), "{since} is not {at}");
        assert_eq!(conditions(&pod)[2][1], "True");
    }
    // The rule allows no more exits.
    sleep(Duration::from_mins(10)).await;
    assert_eq!(
        cluster.wait_until("web", has_phase("Running")).await["status"]["containerStatuses"][0]["restartCount"],
        7
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_terminates_within_its_grace_period() {
    let cluster = TestCluster::new();
    cluster.create_pod("at-once", json!({}));
    cluster.create_pod_with_metadata(
        "slow",
        json!({"labels": {"slow": "yes"}}),
        json!({"terminationGracePeriodSeconds": 60}),
    );
    cluster.create_pod_with_metadata(
        "slower",
        json!({"labels": {"slow": "yes"}}),
        json!({"terminationGracePeriodSeconds": 5}),
    );
    cluster.create_pod_with_metadata("held", json!({"finalizers": ["shop/wait"]}), json!({}));
    cluster.create_pod("elsewhere", json!({"nodeName": "simulated-9"}));
    let _running = cluster.start("one", 1, "pods: [{match: {labels: slow}, stop: 20s}]");
    for name in ["at-once", "slow", "slower", "held"] {
        cluster.wait_until(name, has_phase("Running")).await;
    }
    let start = cluster.now();
    let since = |cluster: &TestCluster| cluster.now().duration_since(start).as_secs();
    for name in ["at-once", "slow", "slower", "held", "elsewhere"] {
        cluster.delete(name).await;
    }
    cluster.wait_until_deleted("at-once").await;
    assert_eq!(since(&cluster), 0);
    cluster.wait_until_deleted("slower").await;
    assert_eq!(since(&cluster), 5);
    cluster.wait_until_deleted("slow").await;
    assert_eq!(since(&cluster), 20);
    let held = cluster
        .wait_until("held", |pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0)
        .await;
    assert_eq!(held["status"]["phase"], "Failed");
    assert_eq!(
        held["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        143
    );
    cluster
        .api
        .edit::<Pod>("shop", "held", |pod| pod.metadata.finalizers = None);
    // A server deletes the object when the last finalizer is removed.
    cluster.api.remove::<Pod>("shop", "held");
    sleep(Duration::from_mins(10)).await;
    assert!(cluster.pod("elsewhere").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_ready_before_its_readiness_gates_are_true() {
    let cluster = TestCluster::new();
    cluster.create_pod("web", json!({"readinessGates": [{"conditionType": "shop/open"}]}));
    let _running = cluster.start("one", 1, "");
    let pod = cluster.wait_until("web", has_phase("Running")).await;
    let message = "corresponding condition of pod readiness gate \"shop/open\" does not exist.";
    assert_eq!(
        conditions(&pod)[2],
        ["Ready", "False", "ReadinessGatesNotReady", message]
    );
    assert_eq!(conditions(&pod)[3], ["ContainersReady", "True", "", ""]);
    for (status, ready) in [
        (
            "False",
            [
                "Ready",
                "False",
                "ReadinessGatesNotReady",
                "the status of pod readiness gate \"shop/open\" is not \"True\", but False",
            ],
        ),
        ("True", ["Ready", "True", "", ""]),
    ] {
        cluster.api.edit::<Pod>("shop", "web", |pod| {
            let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
            conditions.retain(|condition| condition.type_ != "shop/open");
            conditions.push(serde_json::from_value(json!({"type": "shop/open", "status": status})).unwrap());
        });
        cluster.wait_until("web", |pod| conditions(pod)[2] == ready).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_fails_after_its_active_deadline() {
    let cluster = TestCluster::new();
    cluster.create_pod("web", json!({"activeDeadlineSeconds": 30}));
    let _running = cluster.start("one", 1, "pods: [{ready: never}]");
    let pod = cluster.wait_until("web", has_phase("Running")).await;
    assert_eq!(conditions(&pod)[2][1], "False");
    let pod = cluster.wait_until("web", has_phase("Failed")).await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    let since = cluster
        .now()
        .duration_since("2026-01-01T00:00:00Z".parse().unwrap())
        .as_secs();
    assert_eq!(since, 30);
}

#[tokio::test(start_paused = true)]
async fn writes_nothing_for_idle_pods() {
    let cluster = TestCluster::new();
    for pod in 0..50 {
        cluster.create_pod(&format!("pod-{pod}"), json!({}));
    }
    let _running = cluster.start("one", 1, "");
    for pod in 0..50 {
        cluster
            .wait_until(&format!("pod-{pod}"), has_phase("Running"))
            .await;
    }
    let writes = cluster.api.writes();
    let writes = writes.iter().filter(|write| write.is_for("pods/status")).count();
    assert_eq!(writes, 50);
    cluster.api.clear_requests();
    sleep(Duration::from_mins(10)).await;
    let writes = cluster.api.writes();
    assert!(
        writes
            .iter()
            .all(|write| !write.is_for("pods/status") && !write.is_for("pods"))
    );
}

/// One pod runs, one is deleted, one fails, one crashes twice and then keeps running.
const LIFECYCLES: CrashScenario = CrashScenario {
    rules: "
pods:
- match: {labels: fate=fails}
  run: 2s
  exit: {after: 3s, code: 2}
- match: {labels: fate=crashes}
  exit: {after: 5s, code: 1, times: 2}
",
    setup: |cluster| {
        cluster.create_pod("runs", json!({}));
        cluster.create_pod_with_metadata("deleted", json!({"finalizers": ["shop/wait"]}), json!({}));
        cluster.create_pod_with_metadata(
            "fails",
            json!({"labels": {"fate": "fails"}}),
            json!({"restartPolicy": "Never"}),
        );
        cluster.create_pod_with_metadata("crashes", json!({"labels": {"fate": "crashes"}}), json!({}));
    },
    act_as_other_clients: |cluster| {
        let Some(pod) = cluster.pod("deleted") else { return };
        if pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null() {
            cluster.api.edit::<Pod>("shop", "deleted", |pod| {
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(cluster.now());
                pod.metadata.deletion_timestamp = Some(now);
                pod.metadata.deletion_grace_period_seconds = Some(30);
            });
        } else if pod["metadata"]["deletionGracePeriodSeconds"] == 0 {
            cluster.api.remove::<Pod>("shop", "deleted");
        }
    },
    end: |cluster| {
        let pods = ["runs", "deleted", "fails", "crashes"].map(|name| {
            let pod = cluster.pod(name)?;
            let container = &pod["status"]["containerStatuses"][0];
            let is_running = container["state"]["running"].is_object();
            Some(json!([
                pod["status"]["phase"],
                container["restartCount"],
                is_running
            ]))
        });
        let nodes = cluster.node("simulated-0")?["status"]["conditions"][3]["status"].clone();
        let end = json!({"pods": pods, "ready": nodes});
        let expected = json!({"pods": [["Running", 0, true], null, ["Failed", 0, false], ["Running", 2, true]], "ready": "True"});
        (end == expected).then_some(end)
    },
};

#[tokio::test(start_paused = true)]
async fn pods_reach_the_same_state_despite_crashes_and_concurrent_simulators() {
    LIFECYCLES.assert_survives_crashes().await;
}
