//! Workloads on simulated nodes: what controllers and the scheduler make of them.

use std::{collections::BTreeMap, time::Duration};

use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{cluster::TestCluster, program::outcome};

const NODES: u32 = 3;

fn apply(cluster: &TestCluster, object: &Value) {
    let path = cluster.file("object.json", &object.to_string());
    cluster.kubectl(&format!("apply -f {}", path.display()));
}

fn template(labels: &Value, spec: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": spec})
}

fn containers() -> Value {
    json!([{"name": "main", "image": "example.com/app:1"}])
}

#[test]
fn a_deployment_is_rolled_out_paused_restarted_undone_and_scaled() {
    let cluster = TestCluster::with_nodes(NODES);
    cluster.kubectl("create deployment web --image=example.com/web:1 --replicas=4");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    cluster.kubectl("set image deployment/web web=example.com/web:2");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    cluster.kubectl("rollout pause deployment/web");
    cluster.kubectl("set image deployment/web web=example.com/web:3");
    cluster.kubectl("rollout resume deployment/web");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    cluster.kubectl("rollout undo deployment/web");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    let image = "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}";
    assert_eq!(cluster.kubectl(image), "example.com/web:2");
    cluster.kubectl("rollout restart deployment/web");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    cluster.kubectl("scale deployment/web --replicas=2");
    cluster.kubectl("wait deployment/web --for=jsonpath={.status.replicas}=2 --timeout=120s");
    cluster.kubectl("autoscale deployment/web --min=1 --max=3 --cpu-percent=50");
    // Nothing measures here, and the autoscaler says so.
    let inactive = "wait hpa/web --for=condition=ScalingActive=false --timeout=120s";
    cluster.kubectl(inactive);
}

#[test]
fn drain_evicts_pods() {
    let cluster = TestCluster::with_nodes(NODES);
    cluster.kubectl("create deployment web --image=example.com/web:1 --replicas=6");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    for command in ["logs deployment/web", "exec deployment/web -- ls"] {
        let (_, message) = cluster.kubectl_error(command);
        assert!(message.contains("is simulated"), "{command}: {message}");
    }
    cluster.kubectl("drain simulated-0 --timeout=120s");
    let left = "get pods --field-selector=spec.nodeName=simulated-0 -o name";
    assert_eq!(cluster.kubectl(left), "");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
}

#[test]
fn sets_and_jobs_complete() {
    let cluster = TestCluster::with_nodes(NODES);
    let labels = json!({"app": "db"});
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let mounted = json!([{
        "name": "main", "image": "example.com/app:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }]);
    apply(
        &cluster,
        &json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
            "replicas": 3, "serviceName": "db", "selector": {"matchLabels": labels},
            "template": template(&labels, &json!({"containers": mounted})),
            "volumeClaimTemplates": [claim],
        }}),
    );
    let labels = json!({"app": "agent"});
    apply(
        &cluster,
        &json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
            "selector": {"matchLabels": labels}, "template": template(&labels, &json!({"containers": containers()})),
        }}),
    );
    cluster.kubectl("create job once --image=example.com/job:1");
    let schedule = "--schedule=*/5 * * * *";
    cluster.kubectl_with(&[
        "create",
        "cronjob",
        "often",
        "--image=example.com/job:1",
        schedule,
    ]);
    cluster.kubectl("rollout status statefulset/db --timeout=120s");
    cluster.kubectl("rollout status daemonset/agent --timeout=120s");
    cluster.kubectl("wait job/once --for=condition=Complete --timeout=120s");
    let phases = "get persistentvolumeclaims -o jsonpath={.items[*].status.phase}";
    assert_eq!(cluster.kubectl(phases), "Bound Bound Bound");
    let nodes = "get pods -l app=agent -o jsonpath={.items[*].spec.nodeName}";
    let mut nodes: Vec<_> = cluster.kubectl(nodes).split(' ').map(str::to_owned).collect();
    nodes.sort();
    assert_eq!(nodes, ["simulated-0", "simulated-1", "simulated-2"]);
}

#[test]
fn garbage_collects_dependents_unless_orphaned() {
    let cluster = TestCluster::with_nodes(NODES);
    cluster.kubectl("create namespace shop");
    cluster.kubectl("create deployment web --image=example.com/web:1 --replicas=2 -n shop");
    cluster.kubectl("rollout status deployment/web --timeout=120s -n shop");
    cluster.kubectl("delete deployment web --cascade=orphan -n shop");
    let sets = cluster.kubectl("get replicasets -n shop -o name");
    assert!(sets.starts_with("replicaset.apps/web-"), "{sets}");
    cluster.kubectl(&format!("delete {} -n shop", sets.trim()));
    cluster.kubectl("wait pods --all --for=delete --timeout=120s -n shop");
    cluster.kubectl("create deployment web --image=example.com/web:1 --replicas=2 -n shop");
    cluster.kubectl("delete namespace shop --timeout=120s");
}

#[test]
fn reports_the_state_of_controllers() {
    let cluster = TestCluster::with_nodes(NODES);
    let (code, output, errors) = outcome(&mut cluster.k3_command_for("controllers"));
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        output.starts_with("leader: this server (its store is not shared)\nNAME"),
        "{output}"
    );
    for name in ["deployment-controller", "kube-scheduler", "simulator"] {
        assert!(
            output.lines().any(|line| line.starts_with(name)),
            "{name}: {output}"
        );
    }
}

/// How many writes there were of each resource, as the server counts them; but for leases, which are renewed all the time, and
/// for reviews, which change nothing.
fn writes(cluster: &TestCluster) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in cluster.kubectl("get --raw /metrics").lines() {
        let Some(labels) = line.strip_prefix("apiserver_request_total{") else {
            continue;
        };
        let label = |name: &str| {
            let (_, after) = labels.split_once(&format!("{name}=\""))?;
            Some(after.split('"').next().unwrap_or_default().to_owned())
        };
        let verb = label("verb").unwrap();
        let resource = label("resource").unwrap();
        let is_write = matches!(&*verb, "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE");
        if is_write && resource != "leases" && !resource.ends_with("reviews") {
            let (_, count) = line.rsplit_once(' ').unwrap();
            *counts.entry(resource).or_default() += count.parse::<u64>().unwrap();
        }
    }
    counts
}

#[tokio::test]
async fn an_idle_cluster_writes_leases_and_nothing_else() {
    let cluster = TestCluster::with_nodes(NODES);
    cluster.kubectl("create deployment web --image=example.com/web:1 --replicas=3");
    cluster.kubectl("expose deployment web --port=80");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    // Until what was begun has ended: the last slices, the last events.
    eventually_within(Duration::from_mins(2), || async {
        let before = writes(&cluster);
        sleep(Duration::from_secs(5)).await;
        writes(&cluster) == before
    })
    .await;
    let mut before = writes(&cluster);
    sleep(Duration::from_mins(1)).await;
    let mut after = writes(&cluster);
    // Each node tells every five minutes how it is.
    let [output, known] = [&mut after, &mut before].map(|counts| counts.remove("nodes").unwrap_or_default());
    assert!(
        output - known <= u64::from(NODES),
        "{known} writes of nodes, then {output}"
    );
    assert_eq!(after, before);
}
