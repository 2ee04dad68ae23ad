//! Termination of pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::harness::{Harness, condition, container};
use crate::{
    pod::ShutdownPriorityBand,
    runtime::{SandboxState, fake::FakeProgram},
};

const SECOND: Duration = Duration::from_secs(1);

fn is_cleaned_up(harness: &Harness) -> bool {
    harness.runtime.all_containers().is_empty()
        && harness.runtime.sandbox_count(SandboxState::Ready) == 0
        && harness.runtime.sandbox_count(SandboxState::NotReady) == 0
}

#[tokio::test(start_paused = true)]
async fn deleted_pod_gets_its_grace_period_and_is_removed() {
    let harness = Harness::new();
    harness.runtime.set_programs("main", &[FakeProgram::IgnoreStop]);
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    let begun = tokio::time::Instant::now();
    harness.delete("web", 20);
    harness.until_true(|| harness.get("web").is_none()).await;
    let took = begun.elapsed();
    assert!(took >= 20 * SECOND && took < 25 * SECOND, "{took:?}");
    assert!(is_cleaned_up(&harness));
    assert!(!harness.pod_directory("u-web").exists());
    harness.until_event("Killing: Stopping container main").await;
}

#[tokio::test(start_paused = true)]
async fn force_deleted_pod_is_terminated() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    harness.api.remove::<Pod>("default", "web");
    harness.until_true(|| is_cleaned_up(&harness)).await;
}

#[tokio::test(start_paused = true)]
async fn shorter_grace_period_overrides_a_longer_one() {
    let harness = Harness::new();
    harness.runtime.set_programs("main", &[FakeProgram::IgnoreStop]);
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    harness.delete("web", 600);
    tokio::time::sleep(5 * SECOND).await;
    let begun = tokio::time::Instant::now();
    harness.delete("web", 3);
    harness.until_true(|| harness.get("web").is_none()).await;
    assert!(begun.elapsed() < 10 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pod_waiting_for_an_image_pull_can_be_deleted() {
    let harness = Harness::new();
    harness
        .runtime
        .delay_calls("pull_image", 1, Duration::from_mins(1));
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["image"] = "nowhere:1".into();
    harness.pod("web", json!({"containers": [main]}));
    harness
        .until_true(|| harness.runtime.count("pull_image") == 1)
        .await;
    let begun = tokio::time::Instant::now();
    harness.delete("web", 30);
    harness.until_true(|| harness.get("web").is_none()).await;
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pre_stop_hooks_run_first_and_sidecars_stop_last() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["lifecycle"] = json!({"preStop": {"exec": {"command": ["bye"]}}});
    harness.runtime.delay_calls("exec_sync main bye", 1, 4 * SECOND);
    let sidecar = |name: &str| {
        let mut sidecar = container(name);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    };
    harness.runtime.set_programs("two", &[FakeProgram::IgnoreStop]);
    let init = json!([sidecar("one"), sidecar("two")]);
    harness.pod("web", json!({"initContainers": init, "containers": [main]}));
    harness.until_phase("web", "Running").await;
    harness.until_true(|| harness.runtime.running().len() == 3).await;
    harness.delete("web", 10);
    harness
        .until_true(|| harness.runtime.running() == ["web/one#0", "web/two#0"])
        .await;
    assert_eq!(harness.runtime.grace_period("web", "main"), Some(6 * SECOND));
    harness.until_true(|| harness.get("web").is_none()).await;
    let calls = harness.runtime.calls();
    let stops: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("stop_container"))
        .collect();
    let starts: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("start_container"))
        .collect();
    let reversed: Vec<_> = starts
        .iter()
        .rev()
        .map(|call| call.replace("start", "stop"))
        .collect();
    assert_eq!(
        stops.iter().map(|call| (*call).clone()).collect::<Vec<_>>(),
        reversed
    );
}

#[tokio::test(start_paused = true)]
async fn pods_with_restart_policy_never_succeed_or_fail() {
    let harness = Harness::new();
    harness.runtime.set_programs(
        "good",
        &[FakeProgram::Exit {
            after: SECOND,
            code: 0,
        }],
    );
    harness.runtime.set_programs(
        "bad",
        &[FakeProgram::Exit {
            after: SECOND,
            code: 3,
        }],
    );
    let _agent = harness.start_agent();
    harness.pod(
        "good",
        json!({"restartPolicy": "OnFailure", "containers": [container("good")]}),
    );
    harness.pod(
        "bad",
        json!({"restartPolicy": "Never", "containers": [container("bad")]}),
    );
    harness.until_phase("good", "Succeeded").await;
    let status = harness.until_phase("bad", "Failed").await;
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
    harness
        .until_true(|| harness.runtime.sandbox_count(SandboxState::Ready) == 0)
        .await;
    assert_eq!(harness.runtime.all_containers(), ["bad/bad#0", "good/good#0"]);
    harness.delete("bad", 30);
    harness
        .until_true(|| harness.get("bad").is_none() && harness.runtime.all_containers() == ["good/good#0"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn pod_past_active_deadline_fails() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    harness.pod(
        "web",
        json!({"activeDeadlineSeconds": 30, "containers": [container("main")]}),
    );
    harness.until_phase("web", "Running").await;
    let status = harness.until_phase("web", "Failed").await;
    assert_eq!(status["reason"], "DeadlineExceeded");
    assert_eq!(
        status["message"],
        "Pod was active on the node longer than the specified deadline"
    );
    assert!(harness.runtime.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn evicted_pod_fails_with_reason() {
    let harness = Harness::new();
    let agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    assert!(agent.pods.evict(
        "u-web",
        "Evicted",
        "The node was low on resource: memory.",
        Some(0)
    ));
    let status = harness.until_phase("web", "Failed").await;
    assert_eq!(status["reason"], "Evicted");
    assert_eq!(condition(&status, "DisruptionTarget")["status"], "True");
    assert!(agent.pods.is_stopped("u-web"));
}

#[tokio::test(start_paused = true)]
async fn rejects_pods_that_do_not_fit() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["resources"] = json!({"requests": {"cpu": "3"}});
    harness.pod("big", json!({"containers": [main]}));
    let status = harness.until_phase("big", "Failed").await;
    assert_eq!(status["reason"], "OutOfcpu");
    assert_eq!(
        status["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"
    );
    assert_eq!(harness.runtime.count("run_pod_sandbox"), 0);
    harness.delete("big", 30);
    harness.until_true(|| harness.get("big").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn node_shutdown_terminates_pods_by_priority() {
    let harness = Harness::new();
    harness.runtime.set_programs("low", &[FakeProgram::IgnoreStop]);
    let agent = harness.start_agent();
    harness.pod(
        "low",
        json!({"terminationGracePeriodSeconds": 5, "priority": 0, "containers": [container("low")]}),
    );
    harness.pod(
        "high",
        json!({"priority": 2_000_000_000, "containers": [container("high")]}),
    );
    harness.until_phase("low", "Running").await;
    harness.until_phase("high", "Running").await;
    let bands = [(0, 20), (2_000_000_000, 10)].map(|(priority, seconds)| ShutdownPriorityBand {
        priority,
        grace_period: Duration::from_secs(seconds),
    });
    let closing = agent.pods.shut_down(&bands);
    tokio::pin!(closing);
    tokio::select! {
        () = &mut closing => panic!("the shutdown must wait for the pod with the low priority"),
        () = tokio::time::sleep(2 * SECOND) => {}
    }
    assert_eq!(harness.runtime.running(), ["high/high#0", "low/low#0"]);
    closing.await;
    assert!(harness.runtime.running().is_empty());
    let status = harness.until_phase("high", "Failed").await;
    assert_eq!(status["reason"], "Terminated");
    assert_eq!(
        status["message"],
        "Pod was terminated in response to imminent node shutdown."
    );
    harness.pod("late", json!({"containers": [container("main")]}));
    let status = harness.until_phase("late", "Failed").await;
    assert_eq!(status["reason"], "NodeShutdown");
}

#[tokio::test(start_paused = true)]
async fn pod_of_the_same_name_waits_for_removal_of_the_old_one() {
    let harness = Harness::new();
    harness.runtime.set_programs("main", &[FakeProgram::IgnoreStop]);
    let _agent = harness.start_agent();
    harness.pod(
        "web",
        json!({"terminationGracePeriodSeconds": 10, "containers": [container("main")]}),
    );
    harness.until_phase("web", "Running").await;
    harness.api.remove::<Pod>("default", "web");
    let mut replacement = super::harness::pod("web", json!({"containers": [container("main")]}));
    replacement.metadata.uid = Some("u-2".to_owned());
    harness.api.put(&replacement);
    harness.until_phase("web", "Running").await;
    assert_eq!(harness.runtime.all_containers(), ["web/main#0"]);
}
