//! The life cycle of clusters on Docker.

use std::{fs, path::Path};

use k3_node::{
    agent::owner_of_directory,
    runtime::{
        ContainerOwner, Runtime,
        docker::{DockerRuntime, NamedVolume, ServiceContainerSpec},
    },
};
use k3_test_services::{PAUSE_IMAGE, docker, load_database_images};
use kubecontroller::testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;

use crate::cluster_dir::ClusterDir;

/// Three pods on different nodes.
const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers:
      - {name: web, image: IMAGE, imagePullPolicy: Never}
";

#[test]
fn creates_runs_and_clears_a_cluster() {
    let cluster = ClusterDir::new();
    cluster.create(3, "file");
    let started = cluster.run_ok("start");
    assert!(started.contains("export KUBECONFIG="), "{started}");
    let status = cluster.run_ok("status");
    assert_eq!(status.matches(" ready").count(), 3, "{status}");
    assert!(!status.contains("not ready"), "{status}");

    let manifest = cluster.path().join("web.yaml");
    fs::write(&manifest, DEPLOYMENT.replace("IMAGE", PAUSE_IMAGE)).unwrap();
    cluster.kubectl(&format!("apply -f {}", manifest.display()));
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    let names = node_names(&cluster);
    let owners = owners(&cluster, &names);
    for owner in &owners {
        assert_eq!(sandboxes(owner), 1, "{owner:?}");
    }

    // A killed node is restarted; the other nodes are not affected.
    let first = pid(&cluster, 1);
    let second = pid(&cluster, 2);
    kill_process(second, Signal::KILL).unwrap();
    let begun = eventually(|| async {
        let now = pid(&cluster, 2);
        if now == second { Err(now) } else { Ok(()) }
    });
    with_engine(async |_| begun.await);
    assert_eq!(pid(&cluster, 1), first);

    // Pods keep running while the cluster is stopped, and are adopted after its start.
    let pods = "get pods -l app=web -o name";
    let before = cluster.kubectl(pods);
    cluster.run_ok("stop");
    let status = cluster.run_ok("status");
    assert_eq!(status.matches("stopped").count(), 3, "{status}");
    assert_eq!(owners.iter().map(sandboxes).sum::<usize>(), 3);
    cluster.run_ok("start");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    assert_eq!(cluster.kubectl(pods), before);

    let last = pid(&cluster, 1);
    let stranger = ForeignContainer::start();
    let said = cluster.run_ok("clear --force");
    assert!(said.contains("removed 3 pods"), "{said}");
    assert!(!cluster.directory().exists());
    for owner in &owners {
        assert_eq!(sandboxes(owner), 0, "{owner:?}");
    }
    assert!(stranger.exists());
    // The starter has exited, so init reaps the process.
    let process = format!("/proc/{}", last.as_raw_nonzero());
    let removed = eventually(|| async {
        if Path::new(&process).exists() {
            Err(last)
        } else {
            Ok(())
        }
    });
    with_engine(async |_| removed.await);
}

#[test]
fn a_cluster_on_etcd_has_its_own_database() {
    load_database_images(docker()).unwrap();
    let cluster = ClusterDir::new();
    cluster.create(1, "etcd");
    cluster.run_ok("start");
    let id = id(&cluster);
    let name = format!("k8s_storage_etcd_etcd_{id}");
    assert!(exists(&name));
    cluster.kubectl("create configmap kept");
    cluster.run_ok("stop");
    assert!(!exists(&name));
    cluster.run_ok("start");
    cluster.kubectl("get configmap kept");

    let said = cluster.run_ok("clear --force");
    assert!(said.contains("and 1 volumes"), "{said}");
    let left = with_engine(async |engine| {
        let label = "k3.io/database-instance";
        let containers = engine.list_containers_with_label(label, &id).await.unwrap();
        let volumes = engine.remove_volumes_with_label(label, &id).await.unwrap();
        (containers, volumes)
    });
    assert_eq!(left, (Vec::new(), Vec::new()));
}

#[test]
fn reports_a_failing_node_with_its_last_log_lines() {
    let cluster = ClusterDir::new();
    cluster.create(1, "memory");
    let file = cluster.directory().join("node-1/.config.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("type: memory", "type: tape")).unwrap();
    let (code, _, errors) = cluster.cluster("start");
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("node 1 keeps exiting") && errors.contains("\"tape\" is not one of"),
        "{errors}"
    );
    // The supervisor keeps restarting it until it can run.
    fs::write(&file, text).unwrap();
    cluster.run_ok("start");
}

fn node_names(cluster: &ClusterDir) -> Vec<String> {
    let listed = cluster.kubectl("get nodes -o name");
    let names: Vec<_> = listed
        .lines()
        .map(|line| line.trim_start_matches("node/").to_owned())
        .collect();
    assert_eq!(names.len(), 3, "{listed}");
    names
}

fn id(cluster: &ClusterDir) -> String {
    let listed = cluster.run_ok("list");
    let row = listed.lines().nth(1).unwrap();
    row.split_whitespace().next().unwrap().to_owned()
}

fn pid(cluster: &ClusterDir, number: usize) -> Pid {
    let text = fs::read_to_string(cluster.directory().join(format!("node-{number}/pid"))).unwrap();
    let number = text.split_whitespace().next().unwrap().parse().unwrap();
    Pid::from_raw(number).unwrap()
}

/// Runs requests on Docker.
fn with_engine<T>(question: impl AsyncFnOnce(&DockerRuntime) -> T) -> T {
    let waits = Builder::new_current_thread().enable_all().build().unwrap();
    waits.block_on(async { question(&DockerRuntime::connect_without_owner(docker()).await.unwrap()).await })
}

fn exists(name: &str) -> bool {
    with_engine(async |engine| engine.service_container(name).await.unwrap().is_some())
}

/// The container owners of a cluster's nodes.
fn owners(cluster: &ClusterDir, names: &[String]) -> Vec<ContainerOwner> {
    let directories = (1..).map(|number| cluster.directory().join(format!("node-{number}/data/node")));
    directories
        .zip(names)
        .map(|(directory, name)| owner_of_directory(&directory, name).unwrap())
        .collect()
}

/// Counts the pod sandboxes of a node.
fn sandboxes(owner: &ContainerOwner) -> usize {
    let owner = owner.clone();
    with_engine(async |_| {
        let engine = DockerRuntime::connect(docker(), owner).await.unwrap();
        engine.list_pod_sandboxes().await.unwrap().len()
    })
}

/// A foreign container with a name like k3's. It is removed on drop.
struct ForeignContainer(String);

impl ForeignContainer {
    fn start() -> Self {
        let name = format!("k8s_stranger_{}", std::process::id());
        let service = ServiceContainerSpec {
            name: name.clone(),
            image: PAUSE_IMAGE.to_owned(),
            volume: NamedVolume {
                name: name.clone(),
                path: "/kept".to_owned(),
            },
            labels: [("k3.test/of".to_owned(), name.clone())].into(),
            ..ServiceContainerSpec::default()
        };
        with_engine(async |engine| engine.run_service_container(&service).await.unwrap());
        Self(name)
    }

    fn exists(&self) -> bool {
        exists(&self.0)
    }
}

impl Drop for ForeignContainer {
    fn drop(&mut self) {
        // Best effort: the test runtime is removed anyway.
        with_engine(async |engine| {
            let _ = engine.remove_service_container(&self.0).await;
            let _ = engine.remove_volumes_with_label("k3.test/of", &self.0).await;
        });
    }
}
