//! Starting and running pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::harness::{Harness, condition, container};
use crate::runtime::{SandboxState, SecurityProfile, fake::FakeProgram};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn pod_runs_and_reports_its_status() {
    let harness = Harness::new();
    let agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    let status = harness.until_phase("web", "Running").await;
    assert_eq!(harness.runtime.running(), ["web/main#0"]);
    assert_eq!(condition(&status, "Ready")["status"], "True");
    assert_eq!(status["hostIP"], "192.168.0.1");
    assert!(status["podIP"].as_str().unwrap().starts_with("10.1."));
    let found = agent.pods.find("default", "web", None, "main").unwrap();
    assert!(found.container.is_some() && found.sandbox.is_some() && found.previous.is_none());
    assert_eq!(agent.pods.list().len(), 1);
    harness.until_event("Created: Container created").await;
    harness.until_event("Started: Container started").await;
    let pulled =
        "Pulled: Container image \"busybox\" already present on machine and can be accessed by the pod";
    harness.until_event(pulled).await;
}

#[tokio::test(start_paused = true)]
async fn runtime_class_selects_the_handler_of_the_sandbox() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let spec = json!({"runtimeClassName": "sandboxed", "containers": [container("main")]});
    harness.pod("web", spec);
    let missing = "FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io \"sandboxed\" not found";
    harness.until_event(missing).await;
    let class = json!({"metadata": {"name": "sandboxed"}, "handler": "runsc"});
    harness
        .sources
        .put_runtime_class(serde_json::from_value(class).unwrap());
    harness.until_phase("web", "Running").await;
    assert_eq!(harness.runtime.handler("web").as_deref(), Some("runsc"));
    harness.pod("plain", json!({"containers": [container("main")]}));
    harness.until_phase("plain", "Running").await;
    assert_eq!(harness.runtime.handler("plain").as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn idle_pod_causes_no_runtime_calls_or_status_writes() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    tokio::time::sleep(10 * SECOND).await;
    harness.api.clear_requests();
    let calls = harness.runtime.calls().len();
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(harness.api.writes().len(), 0, "{:?}", harness.api.writes());
    let new_calls = harness.runtime.calls().len() - calls;
    assert!(new_calls <= 80, "{new_calls} calls in ten idle minutes");
}

#[tokio::test(start_paused = true)]
async fn failing_container_restarts_with_increasing_backoff() {
    let harness = Harness::new();
    harness.runtime.set_programs(
        "main",
        &[FakeProgram::Exit {
            after: SECOND,
            code: 1,
        }],
    );
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    let waits = |status: &serde_json::Value| {
        status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    let status = harness
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
    harness
        .until_event("BackOff: Back-off restarting failed container main in pod web_default(u-web)")
        .await;
    let status = harness
        .until("web", |status| {
            waits(status) && status["containerStatuses"][0]["restartCount"] == 3
        })
        .await;
    let message = status["containerStatuses"][0]["state"]["waiting"]["message"]
        .as_str()
        .unwrap();
    assert!(message.starts_with("back-off 40s "), "{message}");
    assert!(
        harness.runtime.all_containers().len() <= 2,
        "{:?}",
        harness.runtime.all_containers()
    );
    assert_eq!(harness.runtime.sandbox_count(SandboxState::Ready), 1);
}

#[tokio::test(start_paused = true)]
async fn init_containers_run_in_order_and_sidecars_keep_running() {
    let harness = Harness::new();
    harness.runtime.set_programs(
        "first",
        &[FakeProgram::Exit {
            after: 2 * SECOND,
            code: 0,
        }],
    );
    harness.runtime.set_programs(
        "second",
        &[FakeProgram::Exit {
            after: 2 * SECOND,
            code: 0,
        }],
    );
    let _agent = harness.start_agent();
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = "Always".into();
    let init = json!([container("first"), sidecar, container("second")]);
    harness.pod(
        "web",
        json!({"initContainers": init, "containers": [container("main")]}),
    );
    harness
        .until_true(|| harness.runtime.running() == ["web/first#0"])
        .await;
    harness
        .until_true(|| harness.runtime.running() == ["web/second#0", "web/sidecar#0"])
        .await;
    harness
        .until_true(|| harness.runtime.running() == ["web/main#0", "web/sidecar#0"])
        .await;
    harness.until_phase("web", "Running").await;
    harness.runtime.exit("web", "sidecar", 1);
    harness
        .until_true(|| harness.runtime.running() == ["web/main#0", "web/sidecar#1"])
        .await;
}

#[tokio::test(start_paused = true)]
async fn missing_image_reports_image_pull_backoff() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["image"] = "nowhere:1".into();
    harness.pod("web", json!({"containers": [main]}));
    let reason = |reason: &'static str| {
        move |status: &serde_json::Value| {
            status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        }
    };
    let status = harness.until("web", reason("ErrImagePull")).await;
    assert_eq!(status["phase"], "Pending");
    let status = harness.until("web", reason("ImagePullBackOff")).await;
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["message"],
        "Back-off pulling image \"nowhere:1\": ErrImagePull: nowhere:1: not found"
    );
    harness.until_event("Failed: Error: ErrImagePull").await;
    let _image = harness.runtime.clone().with_registry_image("nowhere:1");
    harness.until_phase("web", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn slow_pod_does_not_delay_others() {
    let harness = Harness::new();
    harness
        .runtime
        .delay_calls("run_pod_sandbox slow", 1, Duration::from_secs(100));
    let _agent = harness.start_agent();
    harness.pod("slow", json!({"containers": [container("main")]}));
    harness
        .until_true(|| harness.runtime.count("run_pod_sandbox slow") == 1)
        .await;
    let begun = tokio::time::Instant::now();
    harness.pod("quick", json!({"containers": [container("main")]}));
    harness.until_phase("quick", "Running").await;
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(harness.runtime.running(), ["quick/main#0"]);
}

#[tokio::test(start_paused = true)]
async fn hanging_sandbox_times_out_and_is_retried() {
    let harness = Harness::new();
    harness
        .runtime
        .delay_calls("run_pod_sandbox", 1, Duration::from_hours(1));
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness
        .until_event(
            "FailedCreatePodSandBox: Failed to create pod sandbox: RunPodSandbox: context deadline exceeded",
        )
        .await;
    harness.until_phase("web", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn lost_sandbox_is_replaced_and_restart_counts_continue() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    harness.runtime.lose_sandbox("web");
    harness
        .until_true(|| harness.runtime.running() == ["web/main#1"])
        .await;
    harness
        .until_event("SandboxChanged: Pod sandbox changed, it will be killed and re-created.")
        .await;
    harness
        .until("web", |status| {
            status["containerStatuses"][0]["restartCount"] == 1
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn container_starts_when_missing_config_map_is_created() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    harness.pod("web", json!({"containers": [main]}));
    let status = harness
        .until("web", |status| {
            status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        })
        .await;
    assert_eq!(
        status["containerStatuses"][0]["state"]["waiting"]["message"],
        "configmap \"settings\" not found"
    );
    harness.sources.put_config_map(
        serde_json::from_value(
            json!({"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "b"}}),
        )
        .unwrap(),
    );
    harness.until_phase("web", "Running").await;
    let spec = harness.runtime.container_spec("web", "main").unwrap();
    assert!(spec.env.contains(&("a".to_owned(), "b".to_owned())));
    let targets: Vec<_> = spec.mounts.iter().map(|mount| mount.target.as_str()).collect();
    assert!(
        targets.contains(&"/etc/hosts") && targets.contains(&"/dev/termination-log"),
        "{targets:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn each_failed_volume_has_its_own_event() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["volumeMounts"] = json!([
        {"name": "one", "mountPath": "/one"},
        {"name": "two", "mountPath": "/two"},
        {"name": "data", "mountPath": "/data"},
    ]);
    harness.pod(
        "web",
        json!({
            "containers": [main],
            "volumes": [
                {"name": "one", "configMap": {"name": "first"}},
                {"name": "two", "configMap": {"name": "second"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}},
            ],
        }),
    );
    for message in [
        "FailedMount: MountVolume.SetUp failed for volume \"one\" : configmap \"first\" not found",
        "FailedMount: MountVolume.SetUp failed for volume \"two\" : configmap \"second\" not found",
        "FailedMount: Unable to attach or mount volumes: unmounted volumes=[data one two], unattached volumes=[], \
        failed to process volumes=[data]: error processing PVC default/missing: failed to fetch PVC from API server: \
        persistentvolumeclaims \"missing\" not found",
    ] {
        harness.until_event(message).await;
    }
}

#[tokio::test(start_paused = true)]
async fn changed_image_starts_a_new_container() {
    let harness = Harness::new();
    let _other = harness.runtime.clone().with_image("busybox:2");
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.until_phase("web", "Running").await;
    harness.api.edit::<Pod>("default", "web", |pod| {
        pod.spec.as_mut().unwrap().containers[0].image = Some("busybox:2".to_owned());
    });
    harness
        .until_true(|| harness.runtime.running() == ["web/main#1"])
        .await;
    harness
        .until_event("Killing: Container main definition changed, will be restarted")
        .await;
}

#[tokio::test(start_paused = true)]
async fn resizes_in_place_or_defers() {
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let with = |cpu: &str| json!({"limits": {"cpu": cpu, "memory": "64Mi"}, "requests": {"cpu": cpu, "memory": "64Mi"}});
    let mut main = container("main");
    main["resources"] = with("500m");
    harness.pod("web", json!({"containers": [main]}));
    harness.until_phase("web", "Running").await;
    let quota = || {
        harness
            .runtime
            .container_spec("web", "main")
            .unwrap()
            .resources
            .cpu_quota
    };
    assert_eq!(quota(), Some(50_000));
    let request_resize = |cpu: &str, generation: i64| {
        let resources = serde_json::from_value(with(cpu)).unwrap();
        harness.api.edit::<Pod>("default", "web", |pod| {
            pod.metadata.generation = Some(generation);
            pod.spec.as_mut().unwrap().containers[0].resources = Some(resources);
        });
    };
    request_resize("1", 2);
    harness.until_true(|| quota() == Some(100_000)).await;
    assert_eq!(harness.runtime.running(), ["web/main#0"]);
    let is_resized =
        |status: &serde_json::Value| status["containerStatuses"][0]["resources"]["limits"]["cpu"] == "1";
    harness.until("web", is_resized).await;
    request_resize("3", 3);
    let status = harness
        .until("web", |status| !condition(status, "PodResizePending").is_null())
        .await;
    assert_eq!(condition(&status, "PodResizePending")["reason"], "Infeasible");
    assert_eq!(quota(), Some(100_000));
    request_resize("1", 4);
    harness
        .until("web", |status| condition(status, "PodResizePending").is_null())
        .await;
}

#[tokio::test(start_paused = true)]
async fn failed_post_start_hook_kills_the_container() {
    let harness = Harness::new();
    harness.runtime.set_exec_output(
        "main",
        crate::runtime::ExecOutput {
            code: 3,
            ..Default::default()
        },
    );
    let _agent = harness.start_agent();
    let mut main = container("main");
    main["lifecycle"] = json!({"postStart": {"exec": {"command": ["false"]}}});
    harness.pod("web", json!({"containers": [main]}));
    harness
        .until_event("FailedPostStartHook: PostStartHook failed")
        .await;
    harness.until_event("Killing: FailedPostStartHook").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_runtime_pods_wait_and_can_be_deleted() {
    let harness = Harness::new();
    let runtime = harness.detected_runtime.send_replace(None);
    let _agent = harness.start_agent();
    harness.pod("web", json!({"containers": [container("main")]}));
    harness.pod("deleted", json!({"containers": [container("main")]}));
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(harness.status("web")["phase"], "Pending");
    harness.delete("deleted", 30);
    harness.until_true(|| harness.get("deleted").is_none()).await;
    harness.detected_runtime.send_replace(runtime);
    harness.until_phase("web", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn static_pods_run_and_have_mirror_pods() {
    let mut harness = Harness::new();
    let directory = harness.settings.root.join("manifests");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("web.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: busybox, imagePullPolicy: IfNotPresent}]}\n";
    std::fs::write(&file, text).unwrap();
    harness.settings.manifests = Some(directory);
    harness.api.put(&k8s_openapi::api::core::v1::Node {
        metadata: kube::api::ObjectMeta {
            name: Some("n1".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    });
    let _agent = harness.start_agent();
    harness
        .until_true(|| harness.runtime.running() == ["web-n1/main#0"])
        .await;
    harness.until_phase("web-n1", "Running").await;
    harness.api.remove::<Pod>("default", "web-n1");
    harness.until_phase("web-n1", "Running").await;
    assert_eq!(harness.runtime.running(), ["web-n1/main#0"]);
    std::fs::remove_file(&file).unwrap();
    harness
        .until_true(|| harness.runtime.all_containers().is_empty() && harness.get("web-n1").is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn containers_get_default_seccomp_profile_unless_turned_off() {
    let config = crate::agent::AgentConfig::new("n1", "/nowhere");
    assert!(config.seccomp_default, "it is on by default");
    let harness = Harness::new();
    let _agent = harness.start_agent();
    let set_default = |is_on: bool| {
        harness.facts.send_modify(|facts| {
            std::sync::Arc::make_mut(facts).machine.seccomp_default = is_on;
        });
    };
    for (name, is_on, expected) in [
        ("on", config.seccomp_default, SecurityProfile::RuntimeDefault),
        ("off", false, SecurityProfile::Unconfined),
    ] {
        set_default(is_on);
        harness.pod(name, json!({"containers": [container("main")]}));
        harness.until_phase(name, "Running").await;
        let spec = harness.runtime.container_spec(name, "main").unwrap();
        assert_eq!(spec.security.seccomp, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn container_start_limit_limits_pulls() {
    let mut harness = Harness::new();
    harness.settings.start_limit = 5 * SECOND;
    let _agent = harness.start_agent();
    drop(harness.runtime.clone().with_registry_image("remote:latest"));
    harness.runtime.delay_calls("pull_image", 1, 20 * SECOND);
    let mut slow = container("main");
    slow["image"] = json!("remote");
    harness.pod("web", json!({"containers": [slow]}));
    let reason = |status: &serde_json::Value| status["containerStatuses"][0]["state"]["waiting"].clone();
    let status = harness
        .until("web", |status| reason(status)["reason"] == "ErrImagePull")
        .await;
    let message = reason(&status)["message"].to_string();
    assert!(
        message.contains("PullImage: context deadline exceeded"),
        "{message}"
    );
    // The next pull is quick enough.
    harness.until_phase("web", "Running").await;
    assert_eq!(harness.runtime.count("pull_image"), 2);
}
