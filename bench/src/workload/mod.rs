//! Controllers and scheduler under load: how fast and at what cost what is wanted becomes what is.
//!
//! Promises: the server is a process of its own, started as a user starts it; only its CPU time is counted, which is that of
//! API server, controllers and scheduler together; the clock stops when every pod is bound, or deleted.

mod memory;
mod report;
mod rolling;
pub(crate) mod scale;

use std::{path::Path, time::Duration};

use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::report::{Row, WorkloadReport};
use crate::{
    BenchError,
    api::{
        client::{ApiRequest, MERGE_PATCH},
        load::Session,
        objects,
        operations::{config_map_name, config_maps, make_namespace, pods},
        server::{Server, ServerOptions},
        watches::Watcher,
    },
    choices::BenchEffort,
    cpu::CpuMeter,
    directories::{data_directory, results, write},
    flags::ApiOptions,
    machine::MachineInfo,
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// How often it is asked whether something is done.
const PAUSE: Duration = Duration::from_millis(20);
/// How many objects the namespace has that is deleted.
const OBJECTS: u32 = 5_000;
/// How many pods are rolled over.
const ROLLED: u32 = 1_000;
/// How many deployments a namespace has where there are many.
const PER_NAMESPACE: usize = 50;

/// Deployments, and the nodes for their pods.
struct WorkloadScenario {
    name: &'static str,
    deleted: &'static str,
    deployments: usize,
    replicas: usize,
    nodes: usize,
}

const SCENES: [WorkloadScenario; 2] = [
    WorkloadScenario {
        name: "10 x 100 pods on 50 nodes, bound",
        deleted: "10 x 100 pods, deleted",
        deployments: 10,
        replicas: 100,
        nodes: 50,
    },
    WorkloadScenario {
        name: "50 x 100 pods on 500 nodes, bound",
        deleted: "50 x 100 pods, deleted",
        deployments: 50,
        replicas: 100,
        nodes: 500,
    },
];

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), BenchError> {
    let dir = data_directory(options.dir.as_deref())?;
    let measured = measure(options, &dir).await;
    std::fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.check_requirements();
    report.print();
    write(&report, &results(options.json.as_deref(), "workload.json"))
}

async fn measure(options: &ApiOptions, dir: &Path) -> Result<WorkloadReport, BenchError> {
    let mut report = WorkloadReport::new(MachineInfo::find(dir)?);
    let scenes = match options.effort {
        BenchEffort::Quick => &SCENES[..1],
        BenchEffort::Full => &SCENES[..],
    };
    for scene in scenes {
        eprintln!("{}", scene.name);
        let server = ServerOptions::with(options, [])?
            .start(&dir.join(scene.nodes.to_string()))
            .await?;
        let session = session(&server, options);
        report.rows.extend(deploy(&session, scene).await?);
        server.stop().await?;
    }
    eprintln!("a namespace is deleted");
    let server = ServerOptions::with(options, [])?
        .start(&dir.join("namespace"))
        .await?;
    let objects = options.effort.of(OBJECTS) as usize;
    report
        .rows
        .push(delete_namespace(&session(&server, options), objects).await?);
    server.stop().await?;
    eprintln!("pods are rolled over");
    let replicas = options.effort.of(ROLLED) as usize;
    let nodes = format!("--simulated-nodes={}", replicas.div_ceil(50));
    let server = ServerOptions::with(options, [nodes])?
        .start(&dir.join("rolling"))
        .await?;
    report
        .rows
        .push(rolling::roll_over(&session(&server, options), replicas).await?);
    server.stop().await?;
    eprintln!("controllers and scheduler are weighed");
    report.memory = Some(memory::weigh(options, &dir.join("memory")).await?);
    Ok(report)
}

pub(crate) fn session<'s>(server: &'s Server, options: &ApiOptions) -> Session<'s> {
    Session {
        endpoint: &server.endpoint,
        meter: CpuMeter::new(Some(server.pid())),
        connections: options.connections,
    }
}

// --- deployments ---

/// From nothing to pods on nodes, and back to nothing.
async fn deploy(session: &Session<'_>, scene: &WorkloadScenario) -> Result<[Row; 2], BenchError> {
    let make = |index: usize| ApiRequest::post("/api/v1/nodes", &objects::node(&node_name(index)));
    session.prepare(scene.nodes, &[201], make).await?;
    // They are not ready for pods before a controller has seen that they are.
    until(async || nodes_are_ready(session, scene.nodes).await).await?;
    make_namespace(session, "workload").await?;
    let path = "/apis/apps/v1/namespaces/workload/deployments";
    let count = scene.deployments * scene.replicas;
    let bound = format!(
        "{}?watch=true&fieldSelector=spec.nodeName%21%3D",
        pods("workload")
    );
    let mut watch = Watcher::open(session, bound).await?;

    let begun = CpuMeasurement::now(session)?;
    let replicas = scene.replicas;
    let make = move |index: usize| {
        let deployment = objects::running_deployment(&deployment_name(index), replicas);
        ApiRequest::post(path, &deployment)
    };
    session.prepare(scene.deployments, &[201], make).await?;
    wait_for(&mut watch, count, br#"{"type":"ADDED""#).await?;
    let made = begun.row(scene.name, count)?;

    let begun = CpuMeasurement::now(session)?;
    let make = move |index: usize| {
        let patch = json!({"spec": {"replicas": 0}});
        ApiRequest::patch(format!("{path}/{}", deployment_name(index)), MERGE_PATCH, &patch)
    };
    session.prepare(scene.deployments, &[200], make).await?;
    wait_for(&mut watch, count, br#"{"type":"DELETED""#).await?;
    Ok([made, begun.row(scene.deleted, count)?])
}

/// Waits until there were so many events of a type.
async fn wait_for(watch: &mut Watcher, count: usize, kind: &[u8]) -> Result<(), BenchError> {
    let mut seen = 0;
    while seen < count {
        let is_open = watch
            .events(|line| {
                seen += usize::from(line.starts_with(kind));
                Ok(())
            })
            .await?;
        if !is_open {
            return Err(format!("the watch ended after {seen} of {count} pods").into());
        }
    }
    Ok(())
}

// --- namespaces ---

async fn delete_namespace(session: &Session<'_>, objects: usize) -> Result<Row, BenchError> {
    make_namespace(session, "full").await?;
    let make = |index: usize| {
        let object = objects::config_map(&config_map_name(index), index, 0);
        ApiRequest::post(config_maps("full"), &object)
    };
    session.prepare(objects, &[201], make).await?;
    let begun = CpuMeasurement::now(session)?;
    session
        .ask(ApiRequest::delete("/api/v1/namespaces/full"), &[200])
        .await?;
    until(async || {
        let answer = session
            .endpoint
            .connect()
            .await?
            .call(ApiRequest::get("/api/v1/namespaces/full"))
            .await?;
        Ok(answer.status == 404)
    })
    .await?;
    begun.row(report::NAMESPACE, objects)
}

// --- many deployments ---

/// Makes deployments of so many pods, some in each namespace.
pub(crate) async fn make_deployments(
    session: &Session<'_>,
    deployments: usize,
    replicas: usize,
) -> Result<(), BenchError> {
    for namespace in 0..deployments.div_ceil(PER_NAMESPACE) {
        make_namespace(session, &namespace_name(namespace)).await?;
    }
    let make = move |index: usize| {
        let namespace = namespace_name(index / PER_NAMESPACE);
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
        ApiRequest::post(
            path,
            &objects::running_deployment(&deployment_name(index), replicas),
        )
    };
    session.prepare(deployments, &[201], make).await
}

/// How many pods of all deployments are available.
pub(crate) async fn available(session: &Session<'_>) -> Result<usize, BenchError> {
    let deployments: List<Deployment> = get(session, "/apis/apps/v1/deployments").await?;
    let counts = deployments.items.iter();
    Ok(counts
        .map(|deployment| deployment.status.available_replicas)
        .sum())
}

fn namespace_name(index: usize) -> String {
    format!("workload-{index:03}")
}

// --- what is read of objects ---

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Node {
    spec: NodeSpec,
}

#[derive(Deserialize)]
struct NodeSpec {
    #[serde(default)]
    taints: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Deployment {
    status: DeploymentStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentStatus {
    #[serde(default)]
    available_replicas: usize,
}

/// Whether no node is kept free of pods any more, and there are so many.
pub(crate) async fn nodes_are_ready(session: &Session<'_>, count: usize) -> Result<bool, BenchError> {
    let nodes: List<Node> = get(session, "/api/v1/nodes").await?;
    Ok(nodes.items.len() >= count && nodes.items.iter().all(|node| node.spec.taints.is_empty()))
}

pub(crate) async fn get<T: for<'de> Deserialize<'de>>(
    session: &Session<'_>,
    path: &str,
) -> Result<T, BenchError> {
    let answer = session.ask(ApiRequest::get(path), &[200]).await?;
    Ok(serde_json::from_slice(&answer.body)?)
}

fn node_name(index: usize) -> String {
    format!("node-{index:04}")
}

fn deployment_name(index: usize) -> String {
    format!("web-{index:03}")
}

// --- time ---

/// A measurement of CPU time and wall time.
struct CpuMeasurement {
    meter: CpuMeter,
    before: crate::cpu::CpuTime,
    at: Instant,
}

impl CpuMeasurement {
    fn now(session: &Session<'_>) -> Result<Self, BenchError> {
        Ok(CpuMeasurement {
            meter: session.meter,
            before: session.meter.read()?,
            at: Instant::now(),
        })
    }

    fn row(self, name: &'static str, objects: usize) -> Result<Row, BenchError> {
        let took = self.at.elapsed();
        let cpu = self.meter.read()?.since(self.before).server;
        Ok(Row {
            name,
            objects,
            took,
            cpu,
        })
    }
}

pub(crate) async fn until(is_done: impl AsyncFnMut() -> Result<bool, BenchError>) -> Result<(), BenchError> {
    asked_every(PAUSE, PATIENCE, is_done).await
}

/// Asks repeatedly, for so long at most, whether something is done.
async fn asked_every(
    pause: Duration,
    patience: Duration,
    mut is_done: impl AsyncFnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let start = Instant::now();
    while !is_done().await? {
        if start.elapsed() > patience {
            return Err("the condition was not reached in time".into());
        }
        sleep(pause).await;
    }
    Ok(())
}
