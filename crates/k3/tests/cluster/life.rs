//! The life of a cluster with two nodes on a real Docker.

use std::{fs, process::Command};

use k3_node::runtime::{
    Owner,
    engine::{Engine, Service, ServiceVolume},
};
use k3_test_services::{PAUSE_IMAGE, docker, free_port};

use crate::place::Place;

/// Two pods that do not go to the same node.
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers:
      - {name: web, image: IMAGE, imagePullPolicy: Never}
"#;

#[test]
fn a_cluster_is_made_runs_pods_on_all_nodes_and_leaves_no_trace() {
    let place = Place::new();
    let socket = docker();
    place.done(&format!(
        "create --nodes 2 --storage file --api-port {} --node-port {} --runtime docker --runtime-endpoint {}",
        free_port().unwrap(),
        free_port().unwrap(),
        socket.display()
    ));
    let started = place.done("start");
    assert!(started.contains("export KUBECONFIG="), "{started}");
    assert_eq!(place.done("status").matches(" ready").count(), 2);

    let manifest = place.path().join("web.yaml");
    fs::write(&manifest, DEPLOYMENT.replace("IMAGE", PAUSE_IMAGE)).unwrap();
    kubectl(&place, &format!("apply -f {}", manifest.display()));
    kubectl(&place, "rollout status deployment/web --timeout=120s");
    let waits = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let names = node_names(&place);
    for name in &names {
        assert_eq!(waits.block_on(sandboxes(name)), 1, "{name}");
    }

    // What is killed is started again, and only that.
    let first = pid(&place, 1);
    let second = pid(&place, 2);
    let killed = Command::new("kill").args(["-KILL", &second]).status().unwrap();
    assert!(killed.success());
    place.done("start");
    assert_eq!(pid(&place, 1), first);
    assert_ne!(pid(&place, 2), second);

    let stranger = waits.block_on(stranger());
    place.done("clear --force");
    assert!(!place.folder().exists());
    for name in &names {
        assert_eq!(waits.block_on(sandboxes(name)), 0, "{name}");
    }
    waits.block_on(async {
        let engine = Engine::for_services(socket).await.unwrap();
        assert!(engine.service(&stranger).await.unwrap().is_some());
        engine.remove_service(&stranger).await.unwrap();
        engine
            .remove_volumes_labelled("k3.test/of", &stranger)
            .await
            .unwrap();
    });
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists());
}

fn kubectl(place: &Place, line: &str) -> String {
    let mut command = place.program("kubectl");
    command.env("KUBECONFIG", place.folder().join("node-1/data/admin.kubeconfig"));
    let output = command.args(line.split_whitespace()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn node_names(place: &Place) -> Vec<String> {
    let listed = kubectl(place, "get nodes -o name");
    let names: Vec<_> = listed
        .lines()
        .map(|line| line.trim_start_matches("node/").to_owned())
        .collect();
    assert_eq!(names.len(), 2, "{listed}");
    names
}

fn pid(place: &Place, number: usize) -> String {
    let text = fs::read_to_string(place.folder().join(format!("node-{number}/pid"))).unwrap();
    text.split_whitespace().next().unwrap().to_owned()
}

/// How many pods of a node Docker has.
async fn sandboxes(node: &str) -> usize {
    let owner = Owner {
        node: node.to_owned(),
    };
    let engine = Engine::connect(docker(), owner).await.unwrap();
    k3_node::runtime::Runtime::sandboxes(&engine).await.unwrap().len()
}

/// A container that is not of k3, with a name that looks so.
async fn stranger() -> String {
    let engine = Engine::for_services(docker()).await.unwrap();
    let name = format!("k8s_stranger_{}", std::process::id());
    let service = Service {
        name: name.clone(),
        image: PAUSE_IMAGE.to_owned(),
        volume: ServiceVolume {
            name: format!("stranger-{}", std::process::id()),
            path: "/kept".to_owned(),
        },
        labels: [("k3.test/of".to_owned(), name.clone())].into(),
        ..Service::default()
    };
    engine.run_service(&service).await.unwrap();
    name
}
