//! Controllers and scheduler under load: how fast and at what cost what is wanted becomes what is.
//!
//! Promises: the server is a process of its own, started as a user starts it; only its CPU time is counted, which is that of
//! API server, controllers and scheduler together; the clock stops when every pod is where it should be, or gone.

mod report;

use std::{collections::HashSet, path::Path, time::Duration};

use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::report::{Row, WorkloadReport};
use crate::{
    Failure,
    api::{
        client::{Call, MERGE_PATCH},
        load::Session,
        objects,
        operations::{config_map_name, config_maps, make_namespace, pods},
        server::{Recipe, Server},
        watches::Watcher,
    },
    cpu::CpuMeter,
    flags::{ApiOptions, Effort},
    machine::Machine,
    place::{data_folder, results, write},
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(5);
/// How often it is asked whether something is done.
const PAUSE: Duration = Duration::from_millis(20);
/// How many objects the namespace has that is deleted.
const OBJECTS: u32 = 5_000;
/// How many pods are rolled over.
const ROLLED: u32 = 1_000;

/// Deployments, and the nodes for their pods.
struct Scene {
    name: &'static str,
    gone: &'static str,
    deployments: usize,
    replicas: usize,
    nodes: usize,
}

const SCENES: [Scene; 2] = [
    Scene {
        name: "10 x 100 pods on 50 nodes, bound",
        gone: "10 x 100 pods, gone",
        deployments: 10,
        replicas: 100,
        nodes: 50,
    },
    Scene {
        name: "50 x 100 pods on 500 nodes, bound",
        gone: "50 x 100 pods, gone",
        deployments: 50,
        replicas: 100,
        nodes: 500,
    },
];

/// Measures everything, prints it, and writes it down.
pub(crate) async fn run(options: &ApiOptions) -> Result<(), Failure> {
    let dir = data_folder(options.dir.as_deref())?;
    let measured = measure(options, &dir).await;
    std::fs::remove_dir_all(&dir)?;
    let mut report = measured?;
    report.judge();
    report.print();
    write(&report, &results(options.json.as_deref(), "workload.json"))
}

async fn measure(options: &ApiOptions, dir: &Path) -> Result<WorkloadReport, Failure> {
    let mut report = WorkloadReport::new(Machine::find(dir)?);
    let scenes = match options.effort {
        Effort::Quick => &SCENES[..1],
        Effort::Full => &SCENES[..],
    };
    for scene in scenes {
        eprintln!("{}", scene.name);
        let server = Recipe::with(options, [])?
            .start(&dir.join(scene.nodes.to_string()))
            .await?;
        let session = session(&server, options);
        report.rows.extend(deploy(&session, scene).await?);
        server.stop().await?;
    }
    eprintln!("a namespace is deleted");
    let server = Recipe::with(options, [])?.start(&dir.join("namespace")).await?;
    let objects = options.effort.of(OBJECTS) as usize;
    report
        .rows
        .push(delete_namespace(&session(&server, options), objects).await?);
    server.stop().await?;
    eprintln!("pods are rolled over");
    let replicas = options.effort.of(ROLLED) as usize;
    let nodes = format!("--simulated-nodes={}", replicas.div_ceil(50));
    let server = Recipe::with(options, [nodes])?
        .start(&dir.join("rolling"))
        .await?;
    report
        .rows
        .push(roll_over(&session(&server, options), replicas).await?);
    server.stop().await?;
    Ok(report)
}

fn session<'s>(server: &'s Server, options: &ApiOptions) -> Session<'s> {
    Session {
        endpoint: &server.endpoint,
        meter: CpuMeter::new(Some(server.pid())),
        connections: options.connections,
    }
}

// --- deployments ---

/// From nothing to pods on nodes, and back to nothing.
async fn deploy(session: &Session<'_>, scene: &Scene) -> Result<[Row; 2], Failure> {
    let make = |index: usize| Call::post("/api/v1/nodes", &objects::node(&node_name(index)));
    session.prepare(scene.nodes, &[201], make).await?;
    until(async || {
        // They are not ready for pods before a controller has seen that they are.
        let nodes: List<Node> = list(session, "/api/v1/nodes").await?;
        Ok(nodes.items.iter().all(|node| node.spec.taints.is_empty()))
    })
    .await?;
    make_namespace(session, "workload").await?;
    let path = "/apis/apps/v1/namespaces/workload/deployments";
    let count = scene.deployments * scene.replicas;
    let bound = format!(
        "{}?watch=true&fieldSelector=spec.nodeName%21%3D",
        pods("workload")
    );
    let mut watch = Watcher::open(session, bound).await?;

    let begun = Begun::now(session)?;
    let replicas = scene.replicas;
    let make = move |index: usize| {
        let deployment = objects::running_deployment(&deployment_name(index), replicas);
        Call::post(path, &deployment)
    };
    session.prepare(scene.deployments, &[201], make).await?;
    wait_for(&mut watch, count, br#"{"type":"ADDED""#).await?;
    let made = begun.row(scene.name, count)?;

    let begun = Begun::now(session)?;
    let make = move |index: usize| {
        let patch = json!({"spec": {"replicas": 0}});
        Call::patch(format!("{path}/{}", deployment_name(index)), MERGE_PATCH, &patch)
    };
    session.prepare(scene.deployments, &[200], make).await?;
    wait_for(&mut watch, count, br#"{"type":"DELETED""#).await?;
    Ok([made, begun.row(scene.gone, count)?])
}

/// Waits until there were so many events of a type.
async fn wait_for(watch: &mut Watcher, count: usize, kind: &[u8]) -> Result<(), Failure> {
    let mut seen = 0;
    while seen < count {
        let goes_on = watch
            .events(|line| {
                seen += usize::from(line.starts_with(kind));
                Ok(())
            })
            .await?;
        if !goes_on {
            return Err(format!("the watch ended after {seen} of {count} pods").into());
        }
    }
    Ok(())
}

// --- namespaces ---

async fn delete_namespace(session: &Session<'_>, objects: usize) -> Result<Row, Failure> {
    make_namespace(session, "full").await?;
    let make = |index: usize| {
        let object = objects::config_map(&config_map_name(index), index, 0);
        Call::post(config_maps("full"), &object)
    };
    session.prepare(objects, &[201], make).await?;
    let begun = Begun::now(session)?;
    session
        .ask(Call::delete("/api/v1/namespaces/full"), &[200])
        .await?;
    until(async || {
        let answer = session
            .endpoint
            .connect()
            .await?
            .call(Call::get("/api/v1/namespaces/full"))
            .await?;
        Ok(answer.status == 404)
    })
    .await?;
    begun.row(report::NAMESPACE, objects)
}

// --- rolling updates ---

/// A new version takes the place of the old one, and the bounds that a deployment has by itself hold all the time: a quarter
/// more than wanted at most, and three quarters of it available at least.
async fn roll_over(session: &Session<'_>, replicas: usize) -> Result<Row, Failure> {
    make_namespace(session, "rolling").await?;
    let path = "/apis/apps/v1/namespaces/rolling/deployments";
    let name = deployment_name(0);
    let deployment = objects::running_deployment(&name, replicas);
    session.ask(Call::post(path, &deployment), &[201]).await?;
    let place = format!("{path}/{name}");
    until(async || {
        let deployment: Deployment = get(session, &place).await?;
        Ok(deployment.status.available_replicas == replicas)
    })
    .await?;
    let mut bounds = Bounds::new(replicas);
    let mut watch = Watcher::open(session, format!("{}?watch=true", pods("rolling"))).await?;

    let begun = Begun::now(session)?;
    let container = json!({"name": "main", "image": "example.com/app:2"});
    let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    session
        .ask(Call::patch(&*place, MERGE_PATCH, &patch), &[200])
        .await?;
    while !bounds.is_over() {
        if !watch.events(|line| bounds.see(line)).await? {
            return Err("the watch ended before the new version was everywhere".into());
        }
    }
    begun.row(report::ROLLING, replicas)
}

/// The pods of a deployment while a new version takes the place of the old one.
struct Bounds {
    replicas: usize,
    /// All that are not going.
    here: HashSet<String>,
    available: HashSet<String>,
    /// Those of the new version that are ready.
    new: HashSet<String>,
    /// Whether all pods of the beginning have been seen.
    is_complete: bool,
}

impl Bounds {
    fn new(replicas: usize) -> Self {
        Bounds {
            replicas,
            here: HashSet::new(),
            available: HashSet::new(),
            new: HashSet::new(),
            is_complete: false,
        }
    }

    fn is_over(&self) -> bool {
        self.new.len() == self.replicas && self.here.len() == self.replicas
    }

    fn see(&mut self, line: &[u8]) -> Result<(), Failure> {
        let event: Event = serde_json::from_slice(line)?;
        let pod = event.object;
        let name = pod.metadata.name;
        let is_here = event.kind != "DELETED" && pod.metadata.deletion_timestamp.is_none();
        let ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        let is_ready = is_here && pod.status.conditions.iter().any(ready);
        let is_new = pod
            .spec
            .containers
            .iter()
            .any(|container| container.image.ends_with(":2"));
        set(&mut self.here, &name, is_here);
        set(&mut self.available, &name, is_ready);
        set(&mut self.new, &name, is_ready && is_new);
        self.is_complete |= self.available.len() >= self.replicas;
        let surge = self.replicas.div_ceil(4);
        if self.here.len() > self.replicas + surge {
            return Err(format!("{} pods are more than may be", self.here.len()).into());
        }
        let least = self.replicas - self.replicas / 4;
        if self.is_complete && self.available.len() < least {
            return Err(format!("{} pods are fewer than must be available", self.available.len()).into());
        }
        Ok(())
    }
}

fn set(names: &mut HashSet<String>, name: &str, is_in: bool) {
    if is_in {
        names.insert(name.to_owned());
    } else {
        names.remove(name);
    }
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

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Pod,
}

#[derive(Deserialize)]
struct Pod {
    metadata: PodMetadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    image: String,
}

#[derive(Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

async fn list<T: for<'de> Deserialize<'de>>(session: &Session<'_>, path: &str) -> Result<List<T>, Failure> {
    get(session, path).await
}

async fn get<T: for<'de> Deserialize<'de>>(session: &Session<'_>, path: &str) -> Result<T, Failure> {
    let answer = session.ask(Call::get(path), &[200]).await?;
    Ok(serde_json::from_slice(&answer.body)?)
}

fn node_name(index: usize) -> String {
    format!("node-{index:04}")
}

fn deployment_name(index: usize) -> String {
    format!("web-{index:03}")
}

// --- time ---

/// Something that was begun.
struct Begun {
    meter: CpuMeter,
    before: crate::cpu::Spent,
    at: Instant,
}

impl Begun {
    fn now(session: &Session<'_>) -> Result<Self, Failure> {
        Ok(Begun {
            meter: session.meter,
            before: session.meter.read()?,
            at: Instant::now(),
        })
    }

    fn row(self, name: &'static str, objects: usize) -> Result<Row, Failure> {
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

async fn until(mut is_done: impl AsyncFnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    while !is_done().await? {
        if start.elapsed() > PATIENCE {
            return Err("what was waited for has not come".into());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, name: &str, image: &str, is_ready: bool) -> Vec<u8> {
        let status = if is_ready { "True" } else { "False" };
        let object = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        json!({"type": kind, "object": object}).to_string().into_bytes()
    }

    #[test]
    fn bounds_that_are_broken_are_seen() {
        let mut bounds = Bounds::new(4);
        for name in ["a", "b", "c", "d"] {
            bounds.see(&event("ADDED", name, "app:1", true)).unwrap();
        }
        bounds.see(&event("ADDED", "e", "app:2", false)).unwrap();
        assert!(bounds.see(&event("ADDED", "f", "app:2", false)).is_err());
        bounds.see(&event("DELETED", "f", "app:2", false)).unwrap();
        bounds.see(&event("DELETED", "a", "app:1", false)).unwrap();
        assert!(bounds.see(&event("DELETED", "b", "app:1", false)).is_err());
    }

    #[test]
    fn it_is_over_when_all_are_new() {
        let mut bounds = Bounds::new(1);
        bounds.see(&event("ADDED", "a", "app:1", true)).unwrap();
        bounds.see(&event("ADDED", "b", "app:2", true)).unwrap();
        assert!(!bounds.is_over());
        bounds.see(&event("DELETED", "a", "app:1", true)).unwrap();
        assert!(bounds.is_over());
    }
}
