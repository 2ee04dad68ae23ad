//! How pods end.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::stage::{Stage, condition, container};
use crate::{
    pod::ShutdownBand,
    runtime::{SandboxState, fake::Program},
};

const SECOND: Duration = Duration::from_secs(1);

fn nothing_is_left(stage: &Stage) -> bool {
    stage.runtime.all().is_empty()
        && stage.runtime.sandbox_count(SandboxState::Ready) == 0
        && stage.runtime.sandbox_count(SandboxState::NotReady) == 0
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_gets_its_grace_and_then_is_gone() {
    let stage = Stage::new();
    stage.runtime.program("main", &[Program::Stubborn]);
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    let begun = tokio::time::Instant::now();
    stage.delete("web", 20);
    stage.until_so(|| stage.get("web").is_none()).await;
    let took = begun.elapsed();
    assert!(took >= 20 * SECOND && took < 25 * SECOND, "{took:?}");
    assert!(nothing_is_left(&stage));
    assert!(!stage.settings.folder("u-web").exists());
    stage.until_told("Killing: Stopping container main").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_removed_without_us_is_ended_too() {
    let stage = Stage::new();
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    stage.api.remove::<Pod>("default", "web");
    stage.until_so(|| nothing_is_left(&stage)).await;
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_cuts_a_longer_one() {
    let stage = Stage::new();
    stage.runtime.program("main", &[Program::Stubborn]);
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    stage.delete("web", 600);
    tokio::time::sleep(5 * SECOND).await;
    let begun = tokio::time::Instant::now();
    stage.delete("web", 3);
    stage.until_so(|| stage.get("web").is_none()).await;
    assert!(begun.elapsed() < 10 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_its_image_can_be_deleted() {
    let stage = Stage::new();
    stage.runtime.slow("pull_image", 1, Duration::from_mins(1));
    let _agent = stage.begin();
    let mut main = container("main");
    main["image"] = "nowhere:1".into();
    stage.pod("web", json!({"containers": [main]}));
    stage.until_so(|| stage.runtime.count("pull_image") == 1).await;
    let begun = tokio::time::Instant::now();
    stage.delete("web", 30);
    stage.until_so(|| stage.get("web").is_none()).await;
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn hooks_come_first_and_sidecars_end_last() {
    let stage = Stage::new();
    let _agent = stage.begin();
    let mut main = container("main");
    main["lifecycle"] = json!({"preStop": {"exec": {"command": ["bye"]}}});
    stage.runtime.slow("exec_sync main bye", 1, 4 * SECOND);
    let sidecar = |name: &str| {
        let mut sidecar = container(name);
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    };
    stage.runtime.program("two", &[Program::Stubborn]);
    let init = json!([sidecar("one"), sidecar("two")]);
    stage.pod("web", json!({"initContainers": init, "containers": [main]}));
    stage.until_phase("web", "Running").await;
    stage.until_so(|| stage.runtime.running().len() == 3).await;
    stage.delete("web", 10);
    stage
        .until_so(|| stage.runtime.running() == ["web/one#0", "web/two#0"])
        .await;
    assert_eq!(stage.runtime.grace_of("web", "main"), Some(6 * SECOND));
    stage.until_so(|| stage.get("web").is_none()).await;
    let calls = stage.runtime.calls();
    let stops: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("stop_container"))
        .collect();
    let made: Vec<_> = calls
        .iter()
        .filter(|call| call.starts_with("start_container"))
        .collect();
    let reversed: Vec<_> = made
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
async fn pods_that_do_not_restart_succeed_or_fail() {
    let stage = Stage::new();
    stage.runtime.program(
        "good",
        &[Program::Exit {
            after: SECOND,
            code: 0,
        }],
    );
    stage.runtime.program(
        "bad",
        &[Program::Exit {
            after: SECOND,
            code: 3,
        }],
    );
    let _agent = stage.begin();
    stage.pod(
        "good",
        json!({"restartPolicy": "OnFailure", "containers": [container("good")]}),
    );
    stage.pod(
        "bad",
        json!({"restartPolicy": "Never", "containers": [container("bad")]}),
    );
    stage.until_phase("good", "Succeeded").await;
    let status = stage.until_phase("bad", "Failed").await;
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
    stage
        .until_so(|| stage.runtime.sandbox_count(SandboxState::Ready) == 0)
        .await;
    assert_eq!(stage.runtime.all(), ["bad/bad#0", "good/good#0"]);
    stage.delete("bad", 30);
    stage
        .until_so(|| stage.get("bad").is_none() && stage.runtime.all() == ["good/good#0"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_past_its_deadline_fails() {
    let stage = Stage::new();
    let _agent = stage.begin();
    stage.pod(
        "web",
        json!({"activeDeadlineSeconds": 30, "containers": [container("main")]}),
    );
    stage.until_phase("web", "Running").await;
    let status = stage.until_phase("web", "Failed").await;
    assert_eq!(status["reason"], "DeadlineExceeded");
    assert_eq!(
        status["message"],
        "Pod was active on the node longer than the specified deadline"
    );
    assert!(stage.runtime.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_fails_and_says_why() {
    let stage = Stage::new();
    let agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    assert!(agent.pods.evict(
        "u-web",
        "Evicted",
        "The node was low on resource: memory.",
        Some(0)
    ));
    let status = stage.until_phase("web", "Failed").await;
    assert_eq!(status["reason"], "Evicted");
    assert_eq!(condition(&status, "DisruptionTarget")["status"], "True");
    assert!(agent.pods.is_stopped("u-web"));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused() {
    let stage = Stage::new();
    let _agent = stage.begin();
    let mut main = container("main");
    main["resources"] = json!({"requests": {"cpu": "3"}});
    stage.pod("big", json!({"containers": [main]}));
    let status = stage.until_phase("big", "Failed").await;
    assert_eq!(status["reason"], "OutOfcpu");
    assert_eq!(
        status["message"],
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"
    );
    assert_eq!(stage.runtime.count("run_sandbox"), 0);
    stage.delete("big", 30);
    stage.until_so(|| stage.get("big").is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn the_node_ends_pods_by_their_priority() {
    let stage = Stage::new();
    stage.runtime.program("low", &[Program::Stubborn]);
    let agent = stage.begin();
    stage.pod(
        "low",
        json!({"terminationGracePeriodSeconds": 5, "priority": 0, "containers": [container("low")]}),
    );
    stage.pod(
        "high",
        json!({"priority": 2_000_000_000, "containers": [container("high")]}),
    );
    stage.until_phase("low", "Running").await;
    stage.until_phase("high", "Running").await;
    let bands = [(0, 20), (2_000_000_000, 10)].map(|(priority, seconds)| ShutdownBand {
        priority,
        time: Duration::from_secs(seconds),
    });
    let closing = agent.pods.shut_down(&bands);
    tokio::pin!(closing);
    tokio::select! {
        () = &mut closing => panic!("the low one takes its time"),
        () = tokio::time::sleep(2 * SECOND) => {}
    }
    assert_eq!(stage.runtime.running(), ["high/high#0", "low/low#0"]);
    closing.await;
    assert!(stage.runtime.running().is_empty());
    let status = stage.until_phase("high", "Failed").await;
    assert_eq!(status["reason"], "Terminated");
    assert_eq!(
        status["message"],
        "Pod was terminated in response to imminent node shutdown."
    );
    stage.pod("late", json!({"containers": [container("main")]}));
    let status = stage.until_phase("late", "Failed").await;
    assert_eq!(status["reason"], "NodeShutdown");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_waits_until_the_old_one_is_gone() {
    let stage = Stage::new();
    stage.runtime.program("main", &[Program::Stubborn]);
    let _agent = stage.begin();
    stage.pod(
        "web",
        json!({"terminationGracePeriodSeconds": 10, "containers": [container("main")]}),
    );
    stage.until_phase("web", "Running").await;
    stage.api.remove::<Pod>("default", "web");
    let mut again = super::stage::pod("web", json!({"containers": [container("main")]}));
    again.metadata.uid = Some("u-2".to_owned());
    stage.api.put(&again);
    stage.until_phase("web", "Running").await;
    assert_eq!(stage.runtime.all(), ["web/main#0"]);
}
