//! How pods live.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::stage::{Stage, condition, container};
use crate::runtime::{SandboxState, fake::Program};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_pod_runs_and_says_so() {
    let stage = Stage::new();
    let agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    let status = stage.until_phase("web", "Running").await;
    assert_eq!(stage.runtime.running(), ["web/main#0"]);
    assert_eq!(condition(&status, "Ready")["status"], "True");
    assert_eq!(status["hostIP"], "192.168.0.1");
    assert!(status["podIP"].as_str().unwrap().starts_with("10.1."));
    let found = agent.pods.find("default", "web", None, "main").unwrap();
    assert!(found.container.is_some() && found.sandbox.is_some() && found.previous.is_none());
    assert_eq!(agent.pods.list().len(), 1);
    stage.until_told("Created: Container created").await;
    stage.until_told("Started: Container started").await;
    let pulled =
        "Pulled: Container image \"busybox\" already present on machine and can be accessed by the pod";
    stage.until_told(pulled).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_pod_is_neither_asked_for_nor_written() {
    let stage = Stage::new();
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    tokio::time::sleep(10 * SECOND).await;
    stage.api.clear_requests();
    let calls = stage.runtime.calls().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(stage.api.writes().len(), 0, "{:?}", stage.api.writes());
    let asked = stage.runtime.calls().len() - calls;
    assert!(asked <= 80, "{asked} calls in ten idle minutes");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_comes_back_later_each_time() {
    let stage = Stage::new();
    stage.runtime.program(
        "main",
        &[Program::Exit {
            after: SECOND,
            code: 1,
        }],
    );
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    let waits = |status: &serde_json::Value| {
        status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    let status = stage
        .until("web", |status| {
            waits(status) && status["containerStatuses"][0]["restartCount"] == 1
        })
        .await;
    let first = &status["containerStatuses"][0];
    assert_eq!(
        first["state"]["waiting"]["message"],
        "back-off 10s restarting failed container=main pod=web_default(u-web)"
    );
    assert_eq!(first["lastState"]["terminated"]["exitCode"], 1);
    stage
        .until_told("BackOff: Back-off restarting failed container main in pod web_default(u-web)")
        .await;
    let status = stage
        .until("web", |status| {
            waits(status) && status["containerStatuses"][0]["restartCount"] == 3
        })
        .await;
    let message = status["containerStatuses"][0]["state"]["waiting"]["message"]
        .as_str()
        .unwrap();
    assert!(message.starts_with("back-off 40s "), "{message}");
    assert!(stage.runtime.all().len() <= 2, "{:?}", stage.runtime.all());
    assert_eq!(stage.runtime.sandbox_count(SandboxState::Ready), 1);
}

#[tokio::test(start_paused = true)]
async fn init_containers_come_one_after_the_other_and_sidecars_stay() {
    let stage = Stage::new();
    stage.runtime.program(
        "first",
        &[Program::Exit {
            after: 2 * SECOND,
            code: 0,
        }],
    );
    stage.runtime.program(
        "second",
        &[Program::Exit {
            after: 2 * SECOND,
            code: 0,
        }],
    );
    let _agent = stage.begin();
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = "Always".into();
    let init = json!([container("first"), sidecar, container("second")]);
    stage.pod(
        "web",
        json!({"initContainers": init, "containers": [container("main")]}),
    );
    stage
        .until_so(|| stage.runtime.running() == ["web/first#0"])
        .await;
    stage
        .until_so(|| stage.runtime.running() == ["web/second#0", "web/sidecar#0"])
        .await;
    stage
        .until_so(|| stage.runtime.running() == ["web/main#0", "web/sidecar#0"])
        .await;
    stage.until_phase("web", "Running").await;
    stage.runtime.exit("web", "sidecar", 1);
    stage
        .until_so(|| stage.runtime.running() == ["web/main#0", "web/sidecar#1"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_not_there_is_waited_for_in_upstreams_words() {
    let stage = Stage::new();
    let _agent = stage.begin();
    let mut main = container("main");
    main["image"] = "nowhere:1".into();
    stage.pod("web", json!({"containers": [main]}));
    let reason = |reason: &'static str| {
        move |status: &serde_json::Value| {
            status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        }
    };
    let status = stage.until("web", reason("ErrImagePull")).await;
    assert_eq!(status["phase"], "Pending");
    let status = stage.until("web", reason("ImagePullBackOff")).await;
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["message"],
        "Back-off pulling image \"nowhere:1\": ErrImagePull: nowhere:1: not found"
    );
    stage.until_told("Failed: Error: ErrImagePull").await;
    let _there = stage.runtime.clone().in_registry("nowhere:1");
    stage.until_phase("web", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn one_slow_pod_delays_no_other() {
    let stage = Stage::new();
    stage
        .runtime
        .slow("run_sandbox slow", 1, Duration::from_secs(100));
    let _agent = stage.begin();
    stage.pod("slow", json!({"containers": [container("main")]}));
    stage
        .until_so(|| stage.runtime.count("run_sandbox slow") == 1)
        .await;
    let begun = tokio::time::Instant::now();
    stage.pod("quick", json!({"containers": [container("main")]}));
    stage.until_phase("quick", "Running").await;
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(stage.runtime.running(), ["quick/main#0"]);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_hangs_is_given_up_and_tried_again() {
    let stage = Stage::new();
    stage.runtime.slow("run_sandbox", 1, Duration::from_hours(1));
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage
        .until_told(
            "FailedCreatePodSandBox: Failed to create pod sandbox: RunPodSandbox: context deadline exceeded",
        )
        .await;
    stage.until_phase("web", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_sandbox_is_replaced_and_counts_go_on() {
    let stage = Stage::new();
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    stage.runtime.lose_sandbox("web");
    stage.until_so(|| stage.runtime.running() == ["web/main#1"]).await;
    stage
        .until_told("SandboxChanged: Pod sandbox changed, it will be killed and re-created.")
        .await;
    stage
        .until("web", |status| {
            status["containerStatuses"][0]["restartCount"] == 1
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_config_map_that_comes_later_lets_the_container_begin() {
    let stage = Stage::new();
    let _agent = stage.begin();
    let mut main = container("main");
    main["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    stage.pod("web", json!({"containers": [main]}));
    let status = stage
        .until("web", |status| {
            status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        })
        .await;
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["message"],
        "configmap \"settings\" not found"
    );
    stage.sources.put_config_map(
        serde_json::from_value(
            json!({"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "b"}}),
        )
        .unwrap(),
    );
    stage.until_phase("web", "Running").await;
    let spec = stage.runtime.spec_of("web", "main").unwrap();
    assert!(spec.env.contains(&("a".to_owned(), "b".to_owned())));
    let targets: Vec<_> = spec.mounts.iter().map(|mount| mount.target.as_str()).collect();
    assert!(
        targets.contains(&"/etc/hosts") && targets.contains(&"/dev/termination-log"),
        "{targets:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_that_changes_begins_another_container() {
    let stage = Stage::new();
    let _other = stage.runtime.clone().with_image("busybox:2");
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.until_phase("web", "Running").await;
    stage.api.edit::<Pod>("default", "web", |pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some("busybox:2".to_owned());
    });
    stage.until_so(|| stage.runtime.running() == ["web/main#1"]).await;
    stage
        .until_told("Killing: Container main definition changed, will be restarted")
        .await;
}

#[tokio::test(start_paused = true)]
async fn resources_change_in_place_or_wait() {
    let stage = Stage::new();
    let _agent = stage.begin();
    let with = |cpu: &str| json!({"limits": {"cpu": cpu, "memory": "64Mi"}, "requests": {"cpu": cpu, "memory": "64Mi"}});
    let mut main = container("main");
    main["resources"] = with("500m");
    stage.pod("web", json!({"containers": [main]}));
    stage.until_phase("web", "Running").await;
    let quota = || stage.runtime.spec_of("web", "main").unwrap().resources.cpu_quota;
    assert_eq!(quota(), Some(50_000));
    let ask = |cpu: &str, generation: i64| {
        let resources = serde_json::from_value(with(cpu)).unwrap();
        stage.api.edit::<Pod>("default", "web", |pod| {
            pod.metadata.generation = Some(generation);
            pod.spec.as_mut().unwrap().containers[0].resources = Some(resources);
        });
    };
    ask("1", 2);
    stage.until_so(|| quota() == Some(100_000)).await;
    assert_eq!(stage.runtime.running(), ["web/main#0"]);
    let told =
        |status: &serde_json::Value| status["containerStatuses"][0]["resources"]["limits"]["cpu"] == "1";
    stage.until("web", told).await;
    ask("3", 3);
    let status = stage
        .until("web", |status| !condition(status, "PodResizePending").is_null())
        .await;
    assert_eq!(condition(&status, "PodResizePending")["reason"], "Infeasible");
    assert_eq!(quota(), Some(100_000));
    ask("1", 4);
    stage
        .until("web", |status| condition(status, "PodResizePending").is_null())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_hook_after_the_start_ends_the_container() {
    let stage = Stage::new();
    stage.runtime.answer(
        "main",
        crate::runtime::ExecOutput {
            code: 3,
            ..Default::default()
        },
    );
    let _agent = stage.begin();
    let mut main = container("main");
    main["lifecycle"] = json!({"postStart": {"exec": {"command": ["false"]}}});
    stage.pod("web", json!({"containers": [main]}));
    stage
        .until_told("FailedPostStartHook: PostStartHook failed")
        .await;
    stage.until_told("Killing: FailedPostStartHook").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_runtime_pods_wait_and_can_be_deleted() {
    let stage = Stage::new();
    let runtime = stage.has_runtime.send_replace(None);
    let _agent = stage.begin();
    stage.pod("web", json!({"containers": [container("main")]}));
    stage.pod("gone", json!({"containers": [container("main")]}));
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(stage.status("web")["phase"], "Pending");
    stage.delete("gone", 30);
    stage.until_so(|| stage.get("gone").is_none()).await;
    stage.has_runtime.send_replace(runtime);
    stage.until_phase("web", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn static_pods_run_and_are_shown_by_mirrors() {
    let mut stage = Stage::new();
    let folder = stage.settings.root.join("manifests");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("web.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: busybox, imagePullPolicy: IfNotPresent}]}\n";
    std::fs::write(&file, text).unwrap();
    stage.settings.manifests = Some(folder);
    stage.api.put(&k8s_openapi::api::core::v1::Node {
        metadata: kube::api::ObjectMeta {
            name: Some("n1".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    });
    let _agent = stage.begin();
    stage
        .until_so(|| stage.runtime.running() == ["web-n1/main#0"])
        .await;
    stage.until_phase("web-n1", "Running").await;
    stage.api.remove::<Pod>("default", "web-n1");
    stage.until_phase("web-n1", "Running").await;
    assert_eq!(stage.runtime.running(), ["web-n1/main#0"]);
    std::fs::remove_file(&file).unwrap();
    stage
        .until_so(|| stage.runtime.all().is_empty() && stage.get("web-n1").is_none())
        .await;
}
