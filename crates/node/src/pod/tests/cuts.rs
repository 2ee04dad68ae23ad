//! The agent is killed at every point, and another one goes on.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kubecontroller::testing::{Fault, RequestMatcher};
use serde_json::json;

use super::stage::{Stage, container};
use crate::runtime::{
    SandboxState,
    fake::{Cut, Program},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn another_agent_leaves_what_runs_alone() {
    let stage = Stage::new();
    let agent = stage.begin();
    stage.pod(
        "web",
        json!({"containers": [container("main"), container("more")]}),
    );
    stage.pod("gone", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    stage.until_phase("gone", "Running").await;
    let before = stage.status("web");
    drop(agent);
    stage.api.remove::<Pod>("default", "gone");
    let (made, started) = (
        stage.runtime.count("create_container"),
        stage.runtime.count("start_container"),
    );
    let _agent = stage.begin();
    stage
        .until_so(|| stage.runtime.running() == ["web/main#0", "web/more#0"])
        .await;
    stage.until_so(|| !stage.settings.folder("u-gone").exists()).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(stage.runtime.count("create_container"), made);
    assert_eq!(stage.runtime.count("start_container"), started);
    assert_eq!(stage.status("web"), before);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_an_orphan_before_all_pods_are_known() {
    let stage = Stage::new();
    let agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    drop(agent);
    stage
        .api
        .faults()
        .on(RequestMatcher::verb("list").resource("pods"), Fault::Status(503));
    let agent = stage.begin();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!agent.pods.knows_all());
    assert_eq!(stage.runtime.running(), ["web/main#0"]);
    stage.api.faults().clear();
    stage.until_so(|| agent.pods.knows_all()).await;
    assert_eq!(stage.runtime.running(), ["web/main#0"]);
}

/// The life of a pod with everything, from its beginning to where it runs.
fn make(stage: &Stage) {
    stage.runtime.program(
        "first",
        &[Program::Exit {
            after: SECOND,
            code: 0,
        }],
    );
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = "Always".into();
    let init = json!([container("first"), sidecar]);
    stage.pod(
        "web",
        json!({"initContainers": init, "containers": [container("main"), container("more")]}),
    );
}

const RUNNING: [&str; 3] = ["web/main#0", "web/more#0", "web/sidecar#0"];

async fn runs(stage: &Stage) {
    stage
        .until("web", |status| {
            status["phase"] == "Running" && status["containerStatuses"][1]["ready"] == true
        })
        .await;
    assert_eq!(stage.runtime.running(), RUNNING);
    assert_eq!(stage.runtime.sandbox_count(SandboxState::Ready), 1);
    for status in stage.status("web")["containerStatuses"].as_array().unwrap() {
        assert_eq!(status["restartCount"], 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_beginning_cut_at_any_call_of_the_runtime_is_gone_on_with() {
    for cut in [Cut::Before, Cut::After] {
        for call in 1.. {
            let stage = Stage::new();
            let agent = stage.begin();
            stage.runtime.cut_at(call, cut);
            make(&stage);
            let finished = tokio::select! {
                () = stage.runtime.was_cut() => false,
                () = runs(&stage) => true,
            };
            drop(agent);
            stage.runtime.heal();
            let _agent = stage.begin();
            runs(&stage).await;
            let all = stage.runtime.all();
            assert_eq!(
                all,
                ["web/first#0", "web/main#0", "web/more#0", "web/sidecar#0"],
                "cut {cut:?} {call}"
            );
            if finished {
                assert!(call > 10, "there are more calls than {call}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_cut_at_any_call_of_the_runtime_is_gone_on_with() {
    for cut in [Cut::Before, Cut::After] {
        for call in 1.. {
            let stage = Stage::new();
            let agent = stage.begin();
            make(&stage);
            runs(&stage).await;
            stage.runtime.cut_at(call, cut);
            stage.delete("web", 10);
            let finished = tokio::select! {
                () = stage.runtime.was_cut() => false,
                () = stage.until_so(|| stage.get("web").is_none()) => true,
            };
            drop(agent);
            stage.runtime.heal();
            let _agent = stage.begin();
            stage.until_so(|| stage.get("web").is_none()).await;
            assert!(
                stage.runtime.all().is_empty(),
                "cut {cut:?} {call}: {:?}",
                stage.runtime.all()
            );
            assert_eq!(stage.runtime.sandbox_count(SandboxState::NotReady), 0);
            assert_eq!(stage.runtime.sandbox_count(SandboxState::Ready), 0);
            if finished {
                assert!(call > 5, "there are more calls than {call}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_fail_are_done_later_and_nothing_is_begun_twice() {
    for write in 0..12 {
        let stage = Stage::new();
        if write % 2 == 0 {
            stage.api.faults().refuse_writes_after(write / 2);
        } else {
            stage.api.faults().lose_write_after(write / 2);
        }
        let agent = stage.begin();
        make(&stage);
        stage.until_so(|| stage.runtime.running() == RUNNING).await;
        drop(agent);
        stage.api.faults().clear();
        let _agent = stage.begin();
        runs(&stage).await;
        stage.delete("web", 5);
        stage.until_so(|| stage.get("web").is_none()).await;
        assert!(stage.runtime.all().is_empty());
    }
}
