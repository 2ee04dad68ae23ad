//! Rollouts, scaling and undo of Deployments.

use crate::cluster::TestCluster;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
";

#[test]
fn rolls_out_scales_and_undoes_workloads() {
    let cluster = TestCluster::with_nodes(2);
    let file = cluster.file("web.yaml", WEB);
    let apply = format!("apply -f {}", file.display());
    assert_eq!(
        cluster.k3(&apply),
        "deployment.apps/web created\nservice/web created\n"
    );
    let status = cluster.k3("rollout status deployment/web --timeout=120s");
    assert!(
        status.ends_with("deployment \"web\" successfully rolled out\n"),
        "{status}"
    );
    assert_eq!(
        cluster.k3("wait deploy/web --for=condition=Available --timeout=60s"),
        "deployment.apps/web condition met\n"
    );
    assert_eq!(
        cluster
            .k3_with(&[
                "wait",
                "pods",
                "-l",
                "app=web",
                "--for=jsonpath={.status.phase}=Running",
                "--timeout=60s"
            ])
            .lines()
            .count(),
        2
    );

    check_scale(&cluster, &apply);
    cluster.file("web.yaml", &WEB.replace("nginx:1", "nginx:2"));
    check_undo(&cluster, &apply);
    check_describe(&cluster);

    // Dependents are deleted with their owner.
    assert_eq!(
        cluster.k3("delete deploy web --cascade=foreground"),
        "deployment.apps \"web\" deleted\n"
    );
    assert_eq!(cluster.k3("get deploy,rs,pods -o name"), "");
}

/// What is scaled by hand is one's own: the file counts again when it is applied.
fn check_scale(cluster: &TestCluster, apply: &str) {
    assert_eq!(
        cluster.k3("scale deployment web --replicas=3"),
        "deployment.apps/web scaled\n"
    );
    cluster.k3("rollout status deploy/web --timeout=120s");
    assert_eq!(
        cluster.k3("get deploy web -o jsonpath={.status.availableReplicas}"),
        "3"
    );
    assert_eq!(
        cluster.k3(apply),
        "deployment.apps/web configured\nservice/web unchanged\n"
    );
    assert_eq!(cluster.k3("get deploy web -o jsonpath={.spec.replicas}"), "2");
    let (_, message) = cluster.k3_error("scale deploy web --replicas=4 --current-replicas=7");
    assert_eq!(message, "error: Expected replicas to be 7, was 2\n");
}

/// A new image is rolled out, undone, done again and held.
fn check_undo(cluster: &TestCluster, apply: &str) {
    cluster.k3(apply);
    cluster.k3("rollout status deploy/web --timeout=120s");
    cluster.same("rollout history deployment/web");
    assert_eq!(
        cluster.k3("rollout undo deploy/web"),
        "deployment.apps/web rolled back\n"
    );
    let image = "get deploy web -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(cluster.k3(image), "nginx:1");
    assert_eq!(
        cluster.k3("rollout restart deploy/web"),
        "deployment.apps/web restarted\n"
    );
    assert_eq!(
        cluster.k3("rollout pause deploy/web"),
        "deployment.apps/web paused\n"
    );
    let (_, message) = cluster.k3_error("rollout pause deploy/web");
    assert_eq!(message, "error: deployments.apps \"web\" is already paused\n");
    assert_eq!(
        cluster.k3("rollout resume deploy/web"),
        "deployment.apps/web resumed\n"
    );
    cluster.k3("rollout status deploy/web --timeout=120s");
}

fn check_describe(cluster: &TestCluster) {
    let deployment = cluster.k3("describe deployment web");
    for part in [
        "Name:",
        "web\n",
        "Selector:",
        "app=web",
        "2 desired",
        "StrategyType:",
        "RollingUpdate",
        "Image:",
        "nginx:1",
        "NewReplicaSet:",
        "ScalingReplicaSet",
    ] {
        assert!(deployment.contains(part), "{part} is not in\n{deployment}");
    }
    // Events are recorded asynchronously, and may arrive after the change.
    let mut pods = cluster.k3("describe pods -l app=web");
    while !pods.contains("Scheduled") {
        pods = cluster.k3("describe pods -l app=web");
    }
    for part in [
        "Controlled By:",
        "ReplicaSet/web-",
        "Containers:\n  web:",
        "cpu:",
        "100m",
        "Events:",
        "Scheduled",
    ] {
        assert!(pods.contains(part), "{part} is not in\n{pods}");
    }
    let service = cluster.k3("describe svc web");
    assert!(
        service.contains("TargetPort:") && service.contains(":80"),
        "{service}"
    );
    let nodes = cluster.k3("describe nodes");
    for part in [
        "Capacity:",
        "Allocatable:",
        "Non-terminated Pods (",
        "Allocated resources:",
        "Ready",
    ] {
        assert!(nodes.contains(part), "{part} is not in\n{nodes}");
    }
    let events = cluster.k3("events --for deployment/web");
    assert!(
        events.starts_with("LAST SEEN") && events.contains("ScalingReplicaSet"),
        "{events}"
    );
}
