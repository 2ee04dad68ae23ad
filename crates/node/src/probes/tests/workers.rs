//! Probe workers: which ones run, when they probe, and the results and events.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::Api;
use kubecontroller::{
    events::{EventApi, EventBroadcaster},
    manager::{Runnable, Stop},
    testing::{FakeApi, eventually},
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::{
    NodeFacts, PodIdentity,
    pod::status::PodSnapshot,
    probes::{ProbeManager, ProbeOutcome, ProbeType},
    runtime::{
        ContainerId, ContainerSpec, ExecOutput, Runtime, SandboxSpec,
        fake::{FakeRuntime, clock},
    },
};

struct ProbeFixture {
    runtime: FakeRuntime,
    probe_manager: ProbeManager,
    api: FakeApi,
    _events: JoinSet<()>,
}

fn probe_fixture() -> ProbeFixture {
    let clock = clock();
    let runtime = FakeRuntime::new(clock.clone()).with_image("busybox");
    let api = FakeApi::new();
    let events = Arc::new(EventBroadcaster::new(api.client()).clock(clock.clone()));
    let recorder = events.recorder("kubelet").style(EventApi::Core);
    let mut event_task = JoinSet::new();
    event_task.spawn(async move {
        let _ = events.run(Stop::new()).await;
    });
    let shared_runtime: Arc<dyn Runtime> = Arc::new(runtime.clone());
    let runtimes = watch::Sender::new(Some(shared_runtime));
    let facts = watch::Sender::new(Arc::new(NodeFacts::default()));
    ProbeFixture {
        probe_manager: ProbeManager::new(runtimes.subscribe(), facts.subscribe(), clock, recorder),
        runtime,
        api,
        _events: event_task,
    }
}

/// A pod with one container `a`.
fn pod(container: &Value) -> Pod {
    let mut container = container.clone();
    container["name"] = json!("a");
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": [container]},
    });
    serde_json::from_value(pod).unwrap()
}

fn exec_probe(mut more: Value) -> Value {
    more["exec"] = json!({"command": ["check", "$(MODE)"]});
    more
}

impl ProbeFixture {
    /// Creates and starts the container.
    async fn start_container(&self, attempt: u32) -> ContainerId {
        let spec = SandboxSpec {
            pod: PodIdentity {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                uid: "u1".to_owned(),
            },
            ..SandboxSpec::default()
        };
        let sandbox = match self.runtime.list_pod_sandboxes().await.unwrap().first() {
            Some(sandbox) => sandbox.id.clone(),
            None => self.runtime.run_pod_sandbox(&spec).await.unwrap(),
        };
        let container = ContainerSpec {
            name: "a".to_owned(),
            image: self.runtime.image_status("busybox").await.unwrap().unwrap().id,
            attempt,
            ..ContainerSpec::default()
        };
        let id = self
            .runtime
            .create_container(&sandbox, &spec, &container)
            .await
            .unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    async fn snapshot(&self) -> PodSnapshot {
        PodSnapshot::new(
            self.runtime.list_pod_sandboxes().await.unwrap(),
            self.runtime.list_containers().await.unwrap(),
        )
    }

    /// Updates the probe manager, as a pod worker does after every relist.
    async fn update_pod(&self, pod: &Pod) {
        self.probe_manager.update_pod(pod, &self.snapshot().await);
    }

    /// Sets the exit code of the probe command.
    fn set_exit_code(&self, code: i32) {
        let output = ExecOutput {
            code,
            stdout: b"out".to_vec(),
            stderr: b"err".to_vec(),
        };
        self.runtime.set_exec_output("a", output);
    }

    fn probe_count(&self) -> usize {
        self.runtime.count("exec_sync")
    }

    async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.api.client(), "shop");
        events
            .list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
    }
}

/// Lets time pass, and a millisecond more, so that timers of that time have fired.
async fn pass_seconds(seconds: u64) {
    sleep(Duration::from_millis(seconds * 1000 + 1)).await;
}

#[tokio::test(start_paused = true)]
async fn liveness_failure_is_reported_once_and_stops_probing() {
    let fixture = probe_fixture();
    let probe = exec_probe(json!({"periodSeconds": 5, "failureThreshold": 2}));
    let pod = pod(&json!({"livenessProbe": probe, "env": [{"name": "MODE", "value": "strict"}]}));
    let id = fixture.start_container(0).await;
    fixture.set_exit_code(1);
    fixture.update_pod(&pod).await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!(fixture.probe_count(), 0);
    pass_seconds(1).await;
    assert_eq!(fixture.probe_count(), 1);
    assert_eq!(fixture.probe_manager.results("u1").liveness(&id), None);
    pass_seconds(5).await;
    assert_eq!(fixture.probe_manager.next_changed_pod().await, "u1");
    assert_eq!(
        fixture.probe_manager.results("u1").liveness(&id),
        Some(ProbeOutcome::Failure)
    );
    fixture.update_pod(&pod).await;
    pass_seconds(60).await;
    assert_eq!(fixture.probe_count(), 2);
    assert!(
        fixture
            .runtime
            .calls()
            .iter()
            .any(|call| call.contains("check strict"))
    );

    eventually(|| async { !fixture.events().await.is_empty() }).await;
    let event = &fixture.events().await[0];
    assert_eq!(event.reason.as_deref(), Some("Unhealthy"));
    assert_eq!(event.message.as_deref(), Some("Liveness probe failed: outerr"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(
        event.involved_object.field_path.as_deref(),
        Some("spec.containers{a}")
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_results() {
    let fixture = probe_fixture();
    let probe = exec_probe(json!({"periodSeconds": 10, "initialDelaySeconds": 3, "successThreshold": 2}));
    let pod = pod(&json!({"readinessProbe": probe}));
    let id = fixture.start_container(0).await;
    fixture.set_exit_code(0);
    fixture.update_pod(&pod).await;
    let ready = || fixture.probe_manager.results("u1").readiness(&id);
    pass_seconds(2).await;
    assert_eq!(fixture.probe_count(), 0);
    pass_seconds(1).await;
    assert_eq!((fixture.probe_count(), ready()), (1, None));
    pass_seconds(10).await;
    assert_eq!(ready(), Some(ProbeOutcome::Success));
    fixture.set_exit_code(1);
    pass_seconds(20).await;
    assert_eq!(ready(), Some(ProbeOutcome::Success));
    pass_seconds(10).await;
    assert_eq!(ready(), Some(ProbeOutcome::Failure));
    fixture.set_exit_code(0);
    pass_seconds(20).await;
    assert_eq!(ready(), Some(ProbeOutcome::Success));
    let changes = [
        fixture.probe_manager.next_changed_pod().await,
        fixture.probe_manager.next_changed_pod().await,
        fixture.probe_manager.next_changed_pod().await,
    ];
    assert_eq!(changes, ["u1", "u1", "u1"]);
}

#[tokio::test(start_paused = true)]
async fn liveness_and_readiness_wait_for_startup() {
    let fixture = probe_fixture();
    let every_second = exec_probe(json!({"periodSeconds": 1}));
    let pod = pod(&json!({
        "startupProbe": exec_probe(json!({"periodSeconds": 1, "failureThreshold": 30})),
        "livenessProbe": every_second, "readinessProbe": every_second,
    }));
    let id = fixture.start_container(0).await;
    fixture.set_exit_code(1);
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 1);
    pass_seconds(5).await;
    assert_eq!(fixture.probe_manager.results("u1").startup(&id), None);
    fixture.set_exit_code(0);
    assert_eq!(fixture.probe_manager.next_changed_pod().await, "u1");
    assert_eq!(
        fixture.probe_manager.results("u1").startup(&id),
        Some(ProbeOutcome::Success)
    );
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 2);
    pass_seconds(0).await;
    assert_eq!(
        fixture.probe_manager.results("u1").readiness(&id),
        Some(ProbeOutcome::Success)
    );
    pass_seconds(1).await;
    assert_eq!(
        fixture.probe_manager.results("u1").liveness(&id),
        Some(ProbeOutcome::Success)
    );
}

#[tokio::test(start_paused = true)]
async fn restarted_container_has_new_workers_and_no_results() {
    let fixture = probe_fixture();
    let pod = pod(&json!({"readinessProbe": exec_probe(json!({"periodSeconds": 1}))}));
    let first = fixture.start_container(0).await;
    fixture.set_exit_code(0);
    fixture.update_pod(&pod).await;
    pass_seconds(1).await;
    assert_eq!(
        fixture.probe_manager.results("u1").readiness(&first),
        Some(ProbeOutcome::Success)
    );
    fixture.runtime.exit("web", "a", 1);
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 0);
    assert_eq!(fixture.probe_manager.results("u1").readiness(&first), None);
    let probe_count = fixture.probe_count();
    pass_seconds(30).await;
    assert_eq!(fixture.probe_count(), probe_count);

    let second = fixture.start_container(1).await;
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 1);
    assert_eq!(fixture.probe_manager.results("u1").readiness(&second), None);
    pass_seconds(0).await;
    assert_eq!(
        fixture.probe_manager.results("u1").readiness(&second),
        Some(ProbeOutcome::Success)
    );
    fixture.probe_manager.remove_pod("u1");
    assert_eq!(fixture.probe_manager.worker_count(), 0);
    assert_eq!(fixture.probe_manager.results("u1").readiness(&second), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_probes_has_no_workers() {
    let fixture = probe_fixture();
    fixture.start_container(0).await;
    fixture.update_pod(&pod(&json!({}))).await;
    assert_eq!(fixture.probe_manager.worker_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn terminating_pod_runs_readiness_probes_only() {
    let fixture = probe_fixture();
    let every_second = exec_probe(json!({"periodSeconds": 1}));
    let mut pod = pod(&json!({"livenessProbe": every_second, "readinessProbe": every_second}));
    fixture.start_container(0).await;
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 2);
    pod.metadata.deletion_timestamp = Some(Time(clock().now()));
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 1);
    pod.status = Some(serde_json::from_value(json!({"phase": "Succeeded"})).unwrap());
    fixture.update_pod(&pod).await;
    assert_eq!(fixture.probe_manager.worker_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn probe_error_is_retried_and_changes_no_result() {
    let fixture = probe_fixture();
    let pod =
        pod(&json!({"readinessProbe": exec_probe(json!({"periodSeconds": 10, "failureThreshold": 1}))}));
    let id = fixture.start_container(0).await;
    fixture.runtime.fail_calls("exec_sync", 3, "busy");
    fixture.set_exit_code(0);
    fixture.update_pod(&pod).await;
    pass_seconds(5).await;
    assert_eq!(fixture.probe_count(), 3);
    assert_eq!(fixture.probe_manager.results("u1").readiness(&id), None);
    eventually(|| async { !fixture.events().await.is_empty() }).await;
    let message = fixture.events().await[0].message.clone().unwrap();
    assert_eq!(
        message,
        "Readiness probe errored and resulted in unknown state: busy"
    );
    pass_seconds(5).await;
    assert_eq!(
        fixture.probe_manager.results("u1").readiness(&id),
        Some(ProbeOutcome::Success)
    );
}

#[tokio::test(start_paused = true)]
async fn exec_timeout_is_a_failure() {
    let fixture = probe_fixture();
    let spec = exec_probe(json!({"periodSeconds": 30, "failureThreshold": 1, "timeoutSeconds": 2}));
    let pod = pod(&json!({"readinessProbe": spec, "env": [{"name": "MODE", "value": "x"}]}));
    let id = fixture.start_container(0).await;
    fixture
        .runtime
        .delay_calls("exec_sync", 1, Duration::from_mins(5));
    fixture.update_pod(&pod).await;
    pass_seconds(13).await;
    assert_eq!(
        fixture.probe_manager.results("u1").readiness(&id),
        Some(ProbeOutcome::Failure)
    );
    eventually(|| async { !fixture.events().await.is_empty() }).await;
    let message = fixture.events().await[0].message.clone().unwrap();
    let expected = "Readiness probe failed: command timed out: \"check x\" timed out after 2s";
    assert_eq!(message, expected);
}

#[tokio::test(start_paused = true)]
async fn skips_startup_probe_of_containers_that_the_api_reports_started() {
    let fixture = probe_fixture();
    let mut pod = pod(&json!({
        "startupProbe": exec_probe(json!({})), "readinessProbe": exec_probe(json!({"periodSeconds": 10})),
    }));
    let id = fixture.start_container(0).await;
    let status = json!({"containerStatuses": [{
        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0, "started": true,
        "containerID": format!("docker://{id}"),
    }]});
    pod.status = Some(serde_json::from_value(status).unwrap());
    fixture.update_pod(&pod).await;
    let kinds: Vec<_> = fixture.probe_manager.worker_kinds().into_iter().collect();
    assert_eq!(kinds, [ProbeType::Readiness]);
}
