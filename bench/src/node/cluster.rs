//! k3 with a node: pods are made through its API, and what becomes of them is seen in a watch, as by any client.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use serde::Deserialize;
use tokio::time::Instant;

use super::{RuntimeDaemon, pod};
use crate::{
    BenchError,
    api::{
        client::{ApiRequest, Connection},
        operations::pods,
        server::{Server, ServerOptions},
        watches::Watcher,
    },
    choices::RuntimeName,
    flags::ApiOptions,
    workload::{get, nodes_are_ready, session, until},
};

/// The name of the node.
pub(super) const NODE: &str = "k3-bench";
/// Where its pods are.
const NAMESPACE: &str = "default";

/// A server, and one node of it.
pub(super) struct Cluster<'a> {
    pub(super) server: Server,
    options: &'a ApiOptions,
    watch: Watcher,
    connection: Connection,
    /// The pods that were seen to run.
    running: BTreeSet<String>,
}

/// The status of the one container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerState {
    pub(super) id: String,
    pub(super) restarts: u32,
    pub(super) is_ready: bool,
}

#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    phase: String,
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(default, rename = "containerID")]
    container_id: String,
    restart_count: u32,
    ready: bool,
}

/// A server whose node uses a runtime. However full the disk is, nothing is thrown off the node, and no image away.
pub(super) fn server_options(
    options: &ApiOptions,
    name: RuntimeName,
    daemon: &RuntimeDaemon,
) -> Result<ServerOptions, BenchError> {
    let flags = [
        "--node-port=0".to_owned(),
        format!("--node-name={NODE}"),
        format!("--runtime={}", name.name()),
        format!("--runtime-endpoint={}", daemon.socket().display()),
        "--eviction-hard=memory.available<1Mi".to_owned(),
        "--image-gc-high-threshold=100".to_owned(),
    ];
    ServerOptions::with_node(options, flags)
}

// --- Cluster ---

impl<'a> Cluster<'a> {
    /// Starts a server, and waits until its node can have pods.
    pub(super) async fn start(
        server_options: &ServerOptions,
        options: &'a ApiOptions,
        directory: &Path,
    ) -> Result<Self, BenchError> {
        let server = server_options.start(directory).await?;
        let session = session(&server, options);
        until(async || nodes_are_ready(&session, 1).await).await?;
        until(async || {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default");
            let answer = session
                .endpoint
                .connect()
                .await?
                .call(ApiRequest::get(path))
                .await?;
            Ok(answer.status == 200)
        })
        .await?;
        let watch = Watcher::open(&session, format!("{}?watch=true", pods(NAMESPACE))).await?;
        let connection = session.endpoint.connect().await?;
        Ok(Self {
            server,
            options,
            watch,
            connection,
            running: BTreeSet::new(),
        })
    }

    /// Asks for a pod.
    pub(super) async fn make(&mut self, name: &str) -> Result<(), BenchError> {
        let answer = self
            .connection
            .call(ApiRequest::post(pods(NAMESPACE), &pod(name)))
            .await?;
        Ok(answer.expect(&[201])?)
    }

    /// Makes a pod; how long it took from there until a watch reported that it runs.
    pub(super) async fn run(&mut self, name: &str) -> Result<Duration, BenchError> {
        let start = Instant::now();
        self.make(name).await?;
        self.until_running(|running| running.contains(name)).await?;
        Ok(start.elapsed())
    }

    /// Makes pods all at once; how long it took until the last one ran.
    pub(super) async fn run_many(&mut self, prefix: &str, count: usize) -> Result<Duration, BenchError> {
        let endpoint = self.server.endpoint.clone();
        let mut options = self.options.clone();
        options.connections = options.connections.min(count);
        let of = prefix.to_owned();
        let make = move |index: usize| ApiRequest::post(pods(NAMESPACE), &pod(&format!("{of}{index}")));
        let session = crate::api::load::Session {
            endpoint: &endpoint,
            meter: crate::cpu::CpuMeter::new(None),
            connections: options.connections,
        };
        let start = Instant::now();
        let all = |running: &BTreeSet<String>| {
            running.iter().filter(|name| name.starts_with(prefix)).count() == count
        };
        tokio::try_join!(session.prepare(count, &[201], make), self.until_running(all))?;
        Ok(start.elapsed())
    }

    /// Reads events of the watch until they are enough.
    pub(super) async fn until_running(
        &mut self,
        is_enough: impl Fn(&BTreeSet<String>) -> bool,
    ) -> Result<(), BenchError> {
        let running = &mut self.running;
        while !is_enough(running) {
            let is_open = self
                .watch
                .events(|line| {
                    let Object { metadata, status } = serde_json::from_slice::<Event>(line)?.object;
                    match status.phase.as_str() {
                        "Running" => drop(running.insert(metadata.name)),
                        "Failed" | "Succeeded" => {
                            return Err(format!("the pod {} is {}", metadata.name, status.phase).into());
                        }
                        _ => {}
                    }
                    Ok(())
                })
                .await?;
            if !is_open {
                return Err("the watch of pods ended".into());
            }
        }
        Ok(())
    }

    /// The states of the containers of pods that run.
    pub(super) async fn container_states(&self) -> Result<BTreeMap<String, ContainerState>, BenchError> {
        let list: List = get(&session(&self.server, self.options), &pods(NAMESPACE)).await?;
        let states = list.items.into_iter().filter_map(|pod| {
            let status = pod.status.container_statuses.first()?.clone();
            let state = ContainerState {
                id: status.container_id,
                restarts: status.restart_count,
                is_ready: status.ready && pod.status.phase == "Running",
            };
            Some((pod.metadata.name, state))
        });
        Ok(states.collect())
    }

    /// Deletes a pod, or all of them, at once.
    pub(super) async fn delete(&self, name: Option<&str>) -> Result<(), BenchError> {
        let one = name.map(|name| format!("/{name}")).unwrap_or_default();
        let path = format!("{}{one}?gracePeriodSeconds=0", pods(NAMESPACE));
        // A connection of its own: one that was idle for long is closed by the server.
        let session = session(&self.server, self.options);
        session.ask(ApiRequest::delete(path), &[200]).await.map(drop)
    }
}
