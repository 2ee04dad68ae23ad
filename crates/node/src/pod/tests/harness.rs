//! A pod manager with an in-memory runtime and API that can be killed and restarted.

use std::{path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Event, Pod};
use kubecontroller::{
    Clock,
    events::{EventApi, EventBroadcaster},
    manager::{Runnable, Stop},
    testing::{FakeApi, eventually_within},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    NodeFacts,
    images::PulledImages,
    pod::{PodDependencies, PodManager, PodSettings},
    probes::ProbeManager,
    runtime::{
        AdoptedPods, Runtime,
        fake::{self, FakeRuntime},
    },
    sources::fake::FakeObjectSources,
    volumes::{PodDirectories, VolumeManager},
};

pub(super) const IMAGE: &str = "busybox:latest";

pub(super) struct Harness {
    pub(super) api: FakeApi,
    pub(super) runtime: FakeRuntime,
    pub(super) sources: Arc<FakeObjectSources>,
    pub(super) clock: Clock,
    pub(super) settings: PodSettings,
    pub(super) facts: watch::Sender<Arc<NodeFacts>>,
    pub(super) detected_runtime: watch::Sender<Option<Arc<dyn Runtime>>>,
    _directory: TempDir,
}

/// An agent. Dropping it is `kill -9`.
pub(super) struct Agent {
    pub(super) pods: PodManager,
    _tasks: JoinSet<()>,
}

impl Harness {
    pub(super) fn new() -> Self {
        let clock = fake::clock();
        let directory = TempDir::new().unwrap();
        let runtime = FakeRuntime::new(clock.clone()).with_image(IMAGE);
        let facts = NodeFacts {
            node_name: "n1".to_owned(),
            addresses: vec!["192.168.0.1".parse().unwrap()],
            allocatable: [("cpu", "2"), ("memory", "1Gi"), ("pods", "110")]
                .map(|(name, text)| (name.to_owned(), text.parse().unwrap()))
                .into(),
            cluster_domain: "cluster.local".to_owned(),
            ..NodeFacts::default()
        };
        let found: Arc<dyn Runtime> = Arc::new(runtime.clone());
        Harness {
            api: FakeApi::with_clock(clock.clone()),
            settings: PodSettings::new(directory.path().to_owned(), directory.path().join("logs")),
            facts: watch::Sender::new(Arc::new(facts)),
            detected_runtime: watch::Sender::new(Some(found)),
            sources: Arc::default(),
            runtime,
            clock,
            _directory: directory,
        }
    }

    /// Starts an agent.
    pub(super) fn start_agent(&self) -> Agent {
        let client = self.api.client();
        let events = Arc::new(EventBroadcaster::new(client.clone()).clock(self.clock.clone()));
        let recorder = events.recorder("kubelet").style(EventApi::Core);
        let runtime = self.detected_runtime.subscribe();
        let facts = self.facts.subscribe();
        let probe_manager = ProbeManager::new(
            runtime.clone(),
            facts.clone(),
            self.clock.clone(),
            recorder.clone(),
        );
        let sources = self.sources.clone();
        let pods = PodManager::new(PodDependencies {
            runtime,
            volumes: Arc::new(VolumeManager::new(
                self.settings.root.clone(),
                sources.clone(),
                self.clock.clone(),
            )),
            sources,
            probe_manager: Arc::new(probe_manager),
            recorder,
            client,
            clock: self.clock.clone(),
            facts,
            adopted: AdoptedPods::default(),
            pulled: PulledImages::open(&self.settings.root),
            settings: self.settings.clone(),
        });
        let mut tasks = JoinSet::new();
        let running = pods.clone();
        tasks.spawn(Box::pin(async move { running.run(Stop::new()).await }));
        tasks.spawn(async move {
            let _ = events.run(Stop::new()).await;
        });
        Agent { pods, _tasks: tasks }
    }

    pub(super) fn pod_directory(&self, uid: &str) -> PathBuf {
        PodDirectories::new(self.settings.root.clone()).pod(uid)
    }

    /// Creates a pod on this node with the UID `u-<name>`.
    pub(super) fn pod(&self, name: &str, spec: Value) -> Pod {
        self.api.put(&pod(name, spec))
    }

    pub(super) fn get(&self, name: &str) -> Option<Pod> {
        self.api.get("default", name)
    }

    pub(super) fn status(&self, name: &str) -> Value {
        let pod = self.get(name).unwrap_or_default();
        serde_json::to_value(pod.status.unwrap_or_default()).unwrap()
    }

    /// Waits until the status of a pod satisfies the condition.
    pub(super) async fn until(&self, name: &str, condition_met: impl Fn(&Value) -> bool) -> Value {
        eventually_within(Duration::from_mins(20), || async {
            let status = self.status(name);
            if condition_met(&status) {
                return Ok(status);
            }
            Err(format!(
                "{status:#} {:?} {:?}",
                self.runtime.all_containers(),
                self.runtime.calls()
            ))
        })
        .await
    }

    pub(super) async fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until(name, |status| status["phase"] == phase).await
    }

    /// Waits until the condition is true.
    pub(super) async fn until_true(&self, condition_met: impl Fn() -> bool) {
        eventually_within(Duration::from_mins(20), || async {
            if condition_met() {
                Ok(())
            } else {
                Err(format!("{:?}", self.runtime.calls()))
            }
        })
        .await;
    }

    /// Requests deletion of a pod, as the API server does.
    pub(super) fn delete(&self, name: &str, grace: i64) {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.clock.now());
        self.api.edit::<Pod>("default", name, |pod| {
            pod.metadata.deletion_timestamp = Some(now);
            pod.metadata.deletion_grace_period_seconds = Some(grace);
        });
    }

    /// The recorded events, as `reason: message`.
    pub(super) fn events(&self) -> Vec<String> {
        let events: Vec<Event> = self.api.list();
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        events
            .iter()
            .map(|event| format!("{}: {}", text(&event.reason), text(&event.message)))
            .collect()
    }

    pub(super) async fn until_event(&self, message: &str) {
        eventually_within(Duration::from_mins(5), || async {
            let recorded = self.events();
            if recorded.iter().any(|event| event == message) {
                Ok(())
            } else {
                Err(recorded)
            }
        })
        .await;
    }
}

/// A pod of this node.
#[expect(clippy::needless_pass_by_value, reason = "callers pass JSON literals")]
pub(super) fn pod(name: &str, spec: Value) -> Pod {
    let mut value = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}"), "generation": 1},
        "spec": {"nodeName": "n1", "restartPolicy": "Always", "terminationGracePeriodSeconds": 30},
        "status": {"phase": "Pending"},
    });
    for (field, content) in spec.as_object().unwrap() {
        value["spec"][field] = content.clone();
    }
    serde_json::from_value(value).unwrap()
}

/// A container with the image that is present.
pub(super) fn container(name: &str) -> Value {
    json!({"name": name, "image": "busybox", "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})
}

pub(super) fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let conditions = status["conditions"].as_array().expect("conditions");
    conditions
        .iter()
        .find(|one| one["type"] == kind)
        .unwrap_or(&Value::Null)
}
