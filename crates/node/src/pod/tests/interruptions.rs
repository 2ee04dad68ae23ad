//! The agent is killed at every runtime call, and a new one continues.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::testing::{Fault, RequestMatcher};
use serde_json::json;

use super::harness::{Harness, container};
use crate::runtime::{
    SandboxState,
    fake::{FakeProgram, Interruption},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn restarted_agent_keeps_running_containers() {
    let harness = Harness::new();
    let agent = harness.start_agent();
    harness.pod(
        "web",
        json!({"containers": [container("main"), container("more")]}),
    );
    harness.pod("deleted", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    harness.until_phase("deleted", "Running").await;
    let before = harness.status("web");
    drop(agent);
    harness.api.remove::<Pod>("default", "deleted");
    let created = harness.runtime.count("create_container");
    let started = harness.runtime.count("start_container");
    let _agent = harness.start_agent();
    harness
        .until_true(|| harness.runtime.running() == ["web/main#0", "web/more#0"])
        .await;
    harness
        .until_true(|| !harness.pod_directory("u-deleted").exists())
        .await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(harness.runtime.count("create_container"), created);
    assert_eq!(harness.runtime.count("start_container"), started);
    assert_eq!(harness.status("web"), before);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_not_removed_before_the_informer_synced() {
    let harness = Harness::new();
    let agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    drop(agent);
    harness
        .api
        .faults()
        .on(RequestMatcher::verb("list").resource("pods"), Fault::Status(503));
    let agent = harness.start_agent();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!agent.pods.knows_all());
    assert_eq!(harness.runtime.running(), ["web/main#0"]);
    harness.api.faults().clear();
    harness.until_true(|| agent.pods.knows_all()).await;
    assert_eq!(harness.runtime.running(), ["web/main#0"]);
}

/// Creates a pod with an init container, a sidecar and two containers.
fn create_web_pod(harness: &Harness) {
    harness.runtime.set_programs(
        "first",
        &[FakeProgram::Exit {
            after: SECOND,
            code: 0,
        }],
    );
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = "Always".into();
    let init = json!([container("first"), sidecar]);
    harness.pod(
        "web",
        json!({"initContainers": init, "containers": [container("main"), container("more")]}),
    );
}

const RUNNING: [&str; 3] = ["web/main#0", "web/more#0", "web/sidecar#0"];

async fn wait_until_running(harness: &Harness) {
    harness
        .until("web", |status| {
            status["phase"] == "Running" && status["containerStatuses"][1]["ready"] == true
        })
        .await;
    assert_eq!(harness.runtime.running(), RUNNING);
    assert_eq!(harness.runtime.sandbox_count(SandboxState::Ready), 1);
    for status in harness.status("web")["containerStatuses"].as_array().unwrap() {
        assert_eq!(status["restartCount"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn start_interrupted_at_any_runtime_call_is_resumed() {
    for interruption in [Interruption::Before, Interruption::After] {
        for call in 1.. {
            let harness = Harness::new();
            let agent = harness.start_agent();
            harness.runtime.interrupt_at(call, interruption);
            create_web_pod(&harness);
            let finished = tokio::select! {
                () = harness.runtime.wait_until_interrupted() => false,
                () = wait_until_running(&harness) => true,
            };
            drop(agent);
            harness.runtime.remove_faults();
            let _agent = harness.start_agent();
            wait_until_running(&harness).await;
            let all = harness.runtime.all_containers();
            assert_eq!(
                all,
                ["web/first#0", "web/main#0", "web/more#0", "web/sidecar#0"],
                "interrupted {interruption:?} call {call}"
            );
            if finished {
                assert!(call > 10, "there are more calls than {call}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn termination_interrupted_at_any_runtime_call_is_resumed() {
    for interruption in [Interruption::Before, Interruption::After] {
        for call in 1.. {
            let harness = Harness::new();
            let agent = harness.start_agent();
            create_web_pod(&harness);
            wait_until_running(&harness).await;
            harness.runtime.interrupt_at(call, interruption);
            harness.delete("web", 10);
            let finished = tokio::select! {
                () = harness.runtime.wait_until_interrupted() => false,
                () = harness.until_true(|| harness.get("web").is_none()) => true,
            };
            drop(agent);
            harness.runtime.remove_faults();
            let _agent = harness.start_agent();
            harness.until_true(|| harness.get("web").is_none()).await;
            assert!(
                harness.runtime.all_containers().is_empty(),
                "interrupted {interruption:?} call {call}: {:?}",
                harness.runtime.all_containers()
            );
            assert_eq!(harness.runtime.sandbox_count(SandboxState::NotReady), 0);
            assert_eq!(harness.runtime.sandbox_count(SandboxState::Ready), 0);
            if finished {
                assert!(call > 5, "there are more calls than {call}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_status_writes_are_retried_and_nothing_starts_twice() {
    for write in 0..12 {
        let harness = Harness::new();
        if write % 2 == 0 {
            harness.api.faults().reject_writes_after(write / 2);
        } else {
            harness.api.faults().lose_write_after(write / 2);
        }
        let agent = harness.start_agent();
        create_web_pod(&harness);
        harness.until_true(|| harness.runtime.running() == RUNNING).await;
        drop(agent);
        harness.api.faults().clear();
        let _agent = harness.start_agent();
        wait_until_running(&harness).await;
        harness.delete("web", 5);
        harness.until_true(|| harness.get("web").is_none()).await;
        assert!(harness.runtime.all_containers().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn container_ids_have_the_name_of_a_runtime_that_did_not_answer_at_first() {
    let harness = Harness::new();
    harness.runtime.fail_calls("version", 20, "unavailable");
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    let status = harness.until_phase("web", "Running").await;
    let id = status["containerStatuses"][0]["containerID"].as_str().unwrap();
    assert!(id.starts_with("fake://"), "{id}");
}
