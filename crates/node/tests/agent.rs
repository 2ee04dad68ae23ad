//! A whole agent with an in-memory API and a real Docker: the node registers, pods run, and a restarted agent continues after a stop or a
//! crash.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{path::Path, time::Duration};

use k3_node::agent::{AgentConfig, EvictionThreshold, NodeAgent};
use k3_test_services::{Docker, TEST_IMAGE};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Event, Namespace, Node, Pod},
};
use kubecontroller::{
    manager::Stop,
    testing::{FakeApi, eventually_within},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Limit of every wait.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A running agent. Dropping it is a crash.
struct RunningAgent {
    stop: Stop,
    tasks: JoinSet<()>,
}

fn start(api: &FakeApi, directory: &Path, socket: Option<&Path>) -> RunningAgent {
    let mut config = AgentConfig::new("n1", directory);
    config.runtime = Some("docker".to_owned());
    let socket = socket.unwrap_or(Path::new("/nowhere/docker.sock"));
    config.runtime_endpoint = Some(format!("unix://{}", socket.display()));
    config.port = 0;
    config.listen = [127, 0, 0, 1].into();
    config.log_dir = directory.join("logs");
    config.static_pods = Some(directory.join("manifests"));
    // The disk of the test machine may be full.
    config.eviction.thresholds = vec!["memory.available<1Mi".parse::<EvictionThreshold>().unwrap()];
    config.image_gc.high_threshold_percent = 100;
    let system = json!({"metadata": {"name": "kube-system", "uid": "the-cluster"}});
    api.put::<Namespace>(&serde_json::from_value(system).unwrap());
    let agent = NodeAgent::new(config, api.client());
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    let until = stop.clone();
    tasks.spawn(async move { agent.run(until).await.unwrap() });
    RunningAgent { stop, tasks }
}

impl RunningAgent {
    async fn stop(mut self) {
        self.stop.stop(Duration::from_secs(10));
        while let Some(result) = self.tasks.join_next().await {
            result.unwrap();
        }
    }
}

fn ready(api: &FakeApi) -> Option<(String, String)> {
    let conditions = api.get::<Node>("", "n1")?.status?.conditions?;
    let ready = conditions.into_iter().find(|known| known.type_ == "Ready")?;
    Some((ready.status, ready.message?))
}

fn put(api: &FakeApi, name: &str, script: &str) {
    let pod: Value = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": "n1",
        "restartPolicy": "Always", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
        "enableServiceLinks": false, "dnsPolicy": "Default",
        "containers": [{"name": "main", "image": TEST_IMAGE, "imagePullPolicy": "Never",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "command": ["sh", "-c", script]}]},
        "status": {"phase": "Pending"}});
    api.put::<Pod>(&serde_json::from_value(pod).unwrap());
}

/// Returns container ID and restart count of a running pod.
fn running(api: &FakeApi, name: &str) -> Result<(String, i32), String> {
    let pod = api.get::<Pod>("default", name).ok_or("there is no such pod")?;
    let status = pod.status.unwrap_or_default();
    let observed = || format!("{:?} {:?}", status.phase, status.container_statuses);
    let container = status
        .container_statuses
        .iter()
        .flatten()
        .next()
        .ok_or_else(observed)?;
    let is_running = container
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some());
    let id = container
        .container_id
        .clone()
        .filter(|_| is_running)
        .ok_or_else(observed)?;
    Ok((id, container.restart_count))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_survive_agent_restarts() {
    let docker = Docker::start().unwrap();
    docker.load_test_images().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::new();
    let agent = start(&api, directory.path(), Some(docker.socket()));
    eventually_within(TEST_TIMEOUT, async || match ready(&api) {
        Some((status, _)) if status == "True" => Ok(()),
        other => Err(other),
    })
    .await;
    let node = api.get::<Node>("", "n1").unwrap().status.unwrap();
    let info = node.node_info.unwrap();
    assert!(
        info.container_runtime_version.starts_with("docker://"),
        "{info:?}"
    );
    let endpoint = node.daemon_endpoints.unwrap().kubelet_endpoint.unwrap();
    assert!(endpoint.port > 0);
    eventually_within(TEST_TIMEOUT, async || {
        api.get::<Lease>("kube-node-lease", "n1").is_some()
    })
    .await;

    put(&api, "web", "sleep 1000");
    let first = eventually_within(TEST_TIMEOUT, async || running(&api, "web")).await;
    assert_eq!(first.1, 0);

    // Containers survive a stop and a crash of the agent.
    agent.stop().await;
    let agent = start(&api, directory.path(), Some(docker.socket()));
    put(&api, "second", "sleep 1000");
    eventually_within(TEST_TIMEOUT, async || running(&api, "second")).await;
    assert_eq!(running(&api, "web"), Ok(first.clone()));
    drop(agent);
    let agent = start(&api, directory.path(), Some(docker.socket()));
    put(&api, "third", "sleep 1000");
    eventually_within(TEST_TIMEOUT, async || running(&api, "third")).await;
    assert_eq!(running(&api, "web"), Ok(first));

    // A deleted pod is removed with its containers.
    api.edit::<Pod>("default", "web", |pod| {
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::now(),
        ));
        pod.metadata.deletion_grace_period_seconds = Some(1);
    });
    eventually_within(TEST_TIMEOUT, async || api.get::<Pod>("default", "web").is_none()).await;
    agent.stop().await;
    let events = api.list::<Event>();
    let events: Vec<_> = events
        .iter()
        .filter_map(|event| event.reason.as_deref())
        .collect();
    for reason in ["Starting", "NodeReady", "Pulled", "Created", "Started"] {
        assert!(events.contains(&reason), "{reason} in {events:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_without_runtime_reports_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let api = FakeApi::new();
    let agent = start(&api, directory.path(), None);
    let (status, message) = eventually_within(TEST_TIMEOUT, async || ready(&api)).await;
    assert_eq!(status, "False");
    assert!(
        message.contains("docker") && message.contains("/nowhere/docker.sock"),
        "{message}"
    );
    agent.stop().await;
}
