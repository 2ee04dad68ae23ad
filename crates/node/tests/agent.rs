//! A whole agent against an API in memory and a real Docker: a node appears, pods run, and an agent that begins anew goes on
//! where the last one was cut off.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

use std::{path::Path, time::Duration};

use k3_node::agent::{Agent, Config, Threshold};
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

/// Nothing here takes that long.
const PATIENCE: Duration = Duration::from_mins(1);

/// An agent that runs. Dropping it is a crash.
struct Running {
    stop: Stop,
    tasks: JoinSet<()>,
}

fn start(api: &FakeApi, folder: &Path, socket: Option<&Path>) -> Running {
    let mut config = Config::new("n1", folder);
    config.runtime = Some("docker".to_owned());
    let socket = socket.unwrap_or(Path::new("/nowhere/docker.sock"));
    config.runtime_endpoint = Some(format!("unix://{}", socket.display()));
    config.port = 0;
    config.listen = [127, 0, 0, 1].into();
    config.log_dir = folder.join("logs");
    config.static_pods = Some(folder.join("manifests"));
    // The disk of the machine that tests run on may be as full as it likes.
    config.eviction.hard = vec!["memory.available<1Mi".parse::<Threshold>().unwrap()];
    config.images.high = 100;
    let system = json!({"metadata": {"name": "kube-system", "uid": "the-cluster"}});
    api.put::<Namespace>(&serde_json::from_value(system).unwrap());
    let agent = Agent::new(config, api.client());
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    let until = stop.clone();
    tasks.spawn(async move { agent.run(until).await.unwrap() });
    Running { stop, tasks }
}

impl Running {
    async fn end(mut self) {
        self.stop.stop(Duration::from_secs(10));
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
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

/// The id and the restarts of a pod's container while it runs.
fn running(api: &FakeApi, name: &str) -> Result<(String, i32), String> {
    let pod = api.get::<Pod>("default", name).ok_or("there is no such pod")?;
    let status = pod.status.unwrap_or_default();
    let seen = || format!("{:?} {:?}", status.phase, status.container_statuses);
    let container = status
        .container_statuses
        .iter()
        .flatten()
        .next()
        .ok_or_else(seen)?;
    let is_running = container
        .state
        .as_ref()
        .is_some_and(|state| state.running.is_some());
    let id = container
        .container_id
        .clone()
        .filter(|_| is_running)
        .ok_or_else(seen)?;
    Ok((id, container.restart_count))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_and_outlive_their_agent() {
    let docker = Docker::start().unwrap();
    docker.load_test_images().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let api = FakeApi::new();
    let agent = start(&api, folder.path(), Some(docker.socket()));
    eventually_within(PATIENCE, async || match ready(&api) {
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
    eventually_within(PATIENCE, async || {
        api.get::<Lease>("kube-node-lease", "n1").is_some()
    })
    .await;

    put(&api, "web", "sleep 1000");
    let first = eventually_within(PATIENCE, async || running(&api, "web")).await;
    assert_eq!(first.1, 0);

    // Once it is stopped, once it is cut off: nobody notices.
    agent.end().await;
    let agent = start(&api, folder.path(), Some(docker.socket()));
    put(&api, "second", "sleep 1000");
    eventually_within(PATIENCE, async || running(&api, "second")).await;
    assert_eq!(running(&api, "web"), Ok(first.clone()));
    drop(agent);
    let agent = start(&api, folder.path(), Some(docker.socket()));
    put(&api, "third", "sleep 1000");
    eventually_within(PATIENCE, async || running(&api, "third")).await;
    assert_eq!(running(&api, "web"), Ok(first));

    // A pod that is deleted goes, with its containers.
    api.edit::<Pod>("default", "web", |pod| {
        pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            k8s_openapi::jiff::Timestamp::now(),
        ));
        pod.metadata.deletion_grace_period_seconds = Some(1);
    });
    eventually_within(PATIENCE, async || api.get::<Pod>("default", "web").is_none()).await;
    agent.end().await;
    let told = api.list::<Event>();
    let told: Vec<_> = told.iter().filter_map(|event| event.reason.as_deref()).collect();
    for reason in ["Starting", "NodeReady", "Pulled", "Created", "Started"] {
        assert!(told.contains(&reason), "{reason} in {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_runtime_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let api = FakeApi::new();
    let agent = start(&api, folder.path(), None);
    let (status, message) = eventually_within(PATIENCE, async || ready(&api)).await;
    assert_eq!(status, "False");
    assert!(
        message.contains("docker") && message.contains("/nowhere/docker.sock"),
        "{message}"
    );
    agent.end().await;
}
