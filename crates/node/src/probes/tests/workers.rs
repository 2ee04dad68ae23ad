//! Workers: which there are, when they look, what they tell.

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
    Facts, PodIdentity,
    pod::status::PodSnapshot,
    probes::{Outcome, ProbeKind, Prober},
    runtime::{
        ContainerId, ContainerSpec, ExecOutput, Runtime, SandboxSpec,
        fake::{FakeRuntime, clock},
    },
};

struct World {
    runtime: FakeRuntime,
    prober: Prober,
    api: FakeApi,
    _events: JoinSet<()>,
}

fn world() -> World {
    let clock = clock();
    let runtime = FakeRuntime::new(clock.clone()).with_image("busybox");
    let api = FakeApi::new();
    let events = Arc::new(EventBroadcaster::new(api.client()).clock(clock.clone()));
    let recorder = events.recorder("kubelet").style(EventApi::Core);
    let mut running = JoinSet::new();
    running.spawn(async move {
        let _ = events.run(Stop::new()).await;
    });
    let shared: Arc<dyn Runtime> = Arc::new(runtime.clone());
    let runtimes = watch::Sender::new(Some(shared));
    let facts = watch::Sender::new(Arc::new(Facts::default()));
    World {
        prober: Prober::new(runtimes.subscribe(), facts.subscribe(), clock, recorder),
        runtime,
        api,
        _events: running,
    }
}

/// A pod with one container, `a`.
fn pod(container: &Value) -> Pod {
    let mut container = container.clone();
    container["name"] = json!("a");
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {"containers": [container]},
    });
    serde_json::from_value(pod).unwrap()
}

/// A probe that runs a command.
fn exec(mut more: Value) -> Value {
    more["exec"] = json!({"command": ["check", "$(HOW)"]});
    more
}

impl World {
    /// Makes the container, and starts it.
    async fn start(&self, attempt: u32) -> ContainerId {
        let spec = SandboxSpec {
            pod: PodIdentity {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                uid: "u1".to_owned(),
            },
            ..SandboxSpec::default()
        };
        let sandbox = match self.runtime.sandboxes().await.unwrap().first() {
            Some(sandbox) => sandbox.id.clone(),
            None => self.runtime.run_sandbox(&spec).await.unwrap(),
        };
        let container = ContainerSpec {
            name: "a".to_owned(),
            image: self.runtime.image("busybox").await.unwrap().unwrap().id,
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
            self.runtime.sandboxes().await.unwrap(),
            self.runtime.containers().await.unwrap(),
        )
    }

    /// As the worker of the pod does whenever something happened.
    async fn keep(&self, pod: &Pod) {
        self.prober.keep(pod, &self.snapshot().await);
    }

    fn answer(&self, code: i32) {
        let output = ExecOutput {
            code,
            stdout: b"out".to_vec(),
            stderr: b"err".to_vec(),
        };
        self.runtime.answer("a", output);
    }

    fn looks(&self) -> usize {
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

async fn pass(seconds: u64) {
    sleep(Duration::from_millis(seconds * 1000 + 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_often_enough_is_said_to_and_left_alone() {
    let world = world();
    let probe = exec(json!({"periodSeconds": 5, "failureThreshold": 2}));
    let pod = pod(&json!({"livenessProbe": probe, "env": [{"name": "HOW", "value": "well"}]}));
    let id = world.start(0).await;
    world.answer(1);
    world.keep(&pod).await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!(world.looks(), 0);
    pass(1).await;
    assert_eq!(world.looks(), 1);
    assert_eq!(world.prober.results("u1").liveness(&id), None);
    pass(5).await;
    assert_eq!(world.prober.changed().await, "u1");
    assert_eq!(world.prober.results("u1").liveness(&id), Some(Outcome::Failure));
    world.keep(&pod).await;
    pass(60).await;
    assert_eq!(world.looks(), 2);
    assert!(
        world
            .runtime
            .calls()
            .iter()
            .any(|call| call.contains("check well"))
    );

    eventually(|| async { !world.events().await.is_empty() }).await;
    let event = &world.events().await[0];
    assert_eq!(event.reason.as_deref(), Some("Unhealthy"));
    assert_eq!(event.message.as_deref(), Some("Liveness probe failed: outerr"));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(
        event.involved_object.field_path.as_deref(),
        Some("spec.containers{a}")
    );
}

#[tokio::test(start_paused = true)]
async fn readiness_comes_and_goes() {
    let world = world();
    let probe = exec(json!({"periodSeconds": 10, "initialDelaySeconds": 3, "successThreshold": 2}));
    let pod = pod(&json!({"readinessProbe": probe}));
    let id = world.start(0).await;
    world.answer(0);
    world.keep(&pod).await;
    let ready = || world.prober.results("u1").readiness(&id);
    pass(2).await;
    assert_eq!(world.looks(), 0);
    pass(1).await;
    assert_eq!((world.looks(), ready()), (1, None));
    pass(10).await;
    assert_eq!(ready(), Some(Outcome::Success));
    world.answer(1);
    pass(20).await;
    assert_eq!(ready(), Some(Outcome::Success));
    pass(10).await;
    assert_eq!(ready(), Some(Outcome::Failure));
    world.answer(0);
    pass(20).await;
    assert_eq!(ready(), Some(Outcome::Success));
    let changes = [
        world.prober.changed().await,
        world.prober.changed().await,
        world.prober.changed().await,
    ];
    assert_eq!(changes, ["u1", "u1", "u1"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_looked_at_until_a_container_is_up() {
    let world = world();
    let every = exec(json!({"periodSeconds": 1}));
    let pod = pod(&json!({
        "startupProbe": exec(json!({"periodSeconds": 1, "failureThreshold": 30})),
        "livenessProbe": every, "readinessProbe": every,
    }));
    let id = world.start(0).await;
    world.answer(1);
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 1);
    pass(5).await;
    assert_eq!(world.prober.results("u1").startup(&id), None);
    world.answer(0);
    assert_eq!(world.prober.changed().await, "u1");
    assert_eq!(world.prober.results("u1").startup(&id), Some(Outcome::Success));
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 2);
    pass(0).await;
    assert_eq!(world.prober.results("u1").readiness(&id), Some(Outcome::Success));
    pass(1).await;
    assert_eq!(world.prober.results("u1").liveness(&id), Some(Outcome::Success));
}

#[tokio::test(start_paused = true)]
async fn workers_end_with_their_container_and_a_new_one_begins_from_nothing() {
    let world = world();
    let pod = pod(&json!({"readinessProbe": exec(json!({"periodSeconds": 1}))}));
    let first = world.start(0).await;
    world.answer(0);
    world.keep(&pod).await;
    pass(1).await;
    assert_eq!(
        world.prober.results("u1").readiness(&first),
        Some(Outcome::Success)
    );
    world.runtime.exit("web", "a", 1);
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 0);
    assert_eq!(world.prober.results("u1").readiness(&first), None);
    let looks = world.looks();
    pass(30).await;
    assert_eq!(world.looks(), looks);

    let second = world.start(1).await;
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 1);
    assert_eq!(world.prober.results("u1").readiness(&second), None);
    pass(0).await;
    assert_eq!(
        world.prober.results("u1").readiness(&second),
        Some(Outcome::Success)
    );
    world.prober.forget("u1");
    assert_eq!(world.prober.workers(), 0);
    assert_eq!(world.prober.results("u1").readiness(&second), None);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_probes_has_no_workers() {
    let world = world();
    world.start(0).await;
    world.keep(&pod(&json!({}))).await;
    assert_eq!(world.prober.workers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_asked_only_whether_it_takes_work() {
    let world = world();
    let every = exec(json!({"periodSeconds": 1}));
    let mut pod = pod(&json!({"livenessProbe": every, "readinessProbe": every}));
    world.start(0).await;
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 2);
    pod.metadata.deletion_timestamp = Some(Time(clock().now()));
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 1);
    pod.status = Some(serde_json::from_value(json!({"phase": "Succeeded"})).unwrap());
    world.keep(&pod).await;
    assert_eq!(world.prober.workers(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_cannot_be_done_says_nothing_of_the_container() {
    let world = world();
    let pod = pod(&json!({"readinessProbe": exec(json!({"periodSeconds": 10, "failureThreshold": 1}))}));
    let id = world.start(0).await;
    world.runtime.refuse("exec_sync", 3, "busy");
    world.answer(0);
    world.keep(&pod).await;
    pass(5).await;
    assert_eq!(world.looks(), 3);
    assert_eq!(world.prober.results("u1").readiness(&id), None);
    eventually(|| async { !world.events().await.is_empty() }).await;
    let message = world.events().await[0].message.clone().unwrap();
    assert_eq!(
        message,
        "Readiness probe errored and resulted in unknown state: busy"
    );
    pass(5).await;
    assert_eq!(world.prober.results("u1").readiness(&id), Some(Outcome::Success));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_has_failed() {
    let world = world();
    let spec = exec(json!({"periodSeconds": 30, "failureThreshold": 1, "timeoutSeconds": 2}));
    let pod = pod(&json!({"readinessProbe": spec, "env": [{"name": "HOW", "value": "x"}]}));
    let id = world.start(0).await;
    world.runtime.slow("exec_sync", 1, Duration::from_mins(5));
    world.keep(&pod).await;
    pass(13).await;
    assert_eq!(world.prober.results("u1").readiness(&id), Some(Outcome::Failure));
    eventually(|| async { !world.events().await.is_empty() }).await;
    let message = world.events().await[0].message.clone().unwrap();
    let expected = "Readiness probe failed: command timed out: \"check x\" timed out after 2s";
    assert_eq!(message, expected);
}

#[tokio::test(start_paused = true)]
async fn what_was_up_before_the_agent_began_is_not_asked_whether_it_is_up() {
    let world = world();
    let mut pod = pod(&json!({
        "startupProbe": exec(json!({})), "readinessProbe": exec(json!({"periodSeconds": 10})),
    }));
    let id = world.start(0).await;
    let status = json!({"containerStatuses": [{
        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0, "started": true,
        "containerID": format!("docker://{id}"),
    }]});
    pod.status = Some(serde_json::from_value(status).unwrap());
    world.keep(&pod).await;
    let kinds: Vec<_> = world.prober.kinds().into_iter().collect();
    assert_eq!(kinds, [ProbeKind::Readiness]);
}
