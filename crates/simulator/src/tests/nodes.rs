//! Nodes and their leases.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kubecontroller::manager::{Runnable, Stop};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::cluster::TestCluster;

#[tokio::test(start_paused = true)]
async fn registers_nodes_as_the_kubelet_does() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 2, "nodes: [{zones: [a, b], region: north}]");
    cluster.wait_until_nodes_ready(2).await;
    let node = cluster.node("simulated-1").unwrap();
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "simulated-1", "kubernetes.io/os": "linux",
            "topology.kubernetes.io/region": "north", "topology.kubernetes.io/zone": "b",
        })
    );
    let status = &node["status"];
    assert_eq!(
        status["capacity"],
        json!({"cpu": "32", "ephemeral-storage": "1Ti", "memory": "256Gi", "pods": "110"})
    );
    assert_eq!(status["capacity"], status["allocatable"]);
    assert_eq!(
        status["addresses"],
        json!([{"type": "InternalIP", "address": "198.18.0.2"}, {"type": "Hostname", "address": "simulated-1"}])
    );
    let ready = &status["conditions"][3];
    assert_eq!(
        (&ready["type"], &ready["status"], &ready["reason"]),
        (&json!("Ready"), &json!("True"), &json!("KubeletReady"))
    );
    let lease = cluster
        .api
        .get::<Lease>("kube-node-lease", "simulated-1")
        .unwrap();
    let lease = serde_json::to_value(lease).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "simulated-1");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(
        lease["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": "simulated-1", "uid": node["metadata"]["uid"]}])
    );
}

#[tokio::test(start_paused = true)]
async fn replaces_addresses_of_older_versions() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 1, "");
    cluster.wait_until_nodes_ready(1).await;
    let older = json!([{"type": "InternalIP", "address": "172.16.0.1"}, {"type": "Hostname", "address": "simulated-0"}]);
    cluster
        .api
        .edit::<k8s_openapi::api::core::v1::Node>("", "simulated-0", |node| {
            node.status.get_or_insert_default().addresses = serde_json::from_value(older.clone()).unwrap();
        });
    kubecontroller::testing::eventually(async || {
        cluster.node("simulated-0").unwrap()["status"]["addresses"][0]["address"] == "198.18.0.1"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn renews_a_thousand_leases_evenly_and_writes_nothing_else() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 1000, "");
    cluster.wait_until_nodes_ready(1000).await;
    sleep(Duration::from_secs(20)).await;
    cluster.api.clear_requests();
    for second in 0..20 {
        let before = cluster.api.writes().len();
        sleep(Duration::from_secs(1)).await;
        let writes = cluster.api.writes().len() - before;
        // The surplus is the status reports every five minutes.
        assert!((90..=115).contains(&writes), "{writes} in second {second}");
    }
    let mut renewals = BTreeMap::<String, usize>::new();
    for write in cluster.api.writes() {
        if write.is_for("leases.coordination.k8s.io") {
            *renewals.entry(write.name.clone()).or_default() += 1;
        }
    }
    assert_eq!(renewals.len(), 1000);
    assert!(renewals.values().all(|times| *times == 2), "{renewals:?}");
}

#[tokio::test(start_paused = true)]
async fn reports_node_status_every_five_minutes() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 1, "");
    cluster.wait_until_nodes_ready(1).await;
    sleep(Duration::from_mins(6)).await;
    cluster.api.clear_requests();
    let heartbeat =
        |cluster: &TestCluster| cluster.node("simulated-0").unwrap()["status"]["conditions"][3].clone();
    let before = heartbeat(&cluster);
    sleep(Duration::from_mins(5)).await;
    let after = heartbeat(&cluster);
    assert_ne!(before["lastHeartbeatTime"], after["lastHeartbeatTime"]);
    assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);
    let writes = cluster.api.writes();
    let heartbeats = writes.iter().filter(|write| write.is_for("nodes/status")).count();
    assert_eq!(heartbeats, 1);
}

#[tokio::test(start_paused = true)]
async fn reports_ready_after_the_conditions_became_unknown() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 1, "");
    cluster.wait_until_nodes_ready(1).await;
    cluster.api.edit::<Node>("", "simulated-0", |node| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        for condition in conditions {
            condition.status = "Unknown".to_owned();
        }
    });
    cluster.wait_until_nodes_ready(1).await;
}

#[tokio::test(start_paused = true)]
async fn registers_a_deleted_node_only_after_a_restart() {
    let cluster = TestCluster::new();
    let running = cluster.start("one", 2, "");
    cluster.wait_until_nodes_ready(2).await;
    cluster.api.remove::<Node>("", "simulated-1");
    cluster.api.remove::<Lease>("kube-node-lease", "simulated-1");
    sleep(Duration::from_mins(20)).await;
    cluster.wait_until_nodes_ready(1).await;
    drop(running);
    let _running = cluster.start("two", 2, "");
    cluster.wait_until_nodes_ready(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_renews_no_lease_and_runs_no_pods() {
    let cluster = TestCluster::new();
    let _running = cluster.start("one", 1, "nodes: [{vanish: {after: 1m, for: 2m}}]");
    cluster.wait_until_nodes_ready(1).await;
    let renewed = |cluster: &TestCluster| -> Value {
        let lease = cluster
            .api
            .get::<Lease>("kube-node-lease", "simulated-0")
            .unwrap();
        serde_json::to_value(lease).unwrap()["spec"]["renewTime"].clone()
    };
    sleep(Duration::from_secs(61)).await;
    let before = renewed(&cluster);
    cluster.create_pod("late", json!({}));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(before, renewed(&cluster));
    assert_eq!(
        cluster.pod("late").unwrap()["status"],
        json!({"phase": "Pending"})
    );
    cluster
        .wait_until("late", |pod| pod["status"]["phase"] == "Running")
        .await;
    assert!(cluster.now() >= "2026-01-01T00:03:00Z".parse().unwrap());
    sleep(Duration::from_secs(1)).await;
    assert_ne!(before, renewed(&cluster));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_simulator_can_run_again() {
    let cluster = TestCluster::new();
    let (simulator, _informers) = cluster.simulator("one", 2, "");
    for pod in ["first", "second", "third"] {
        let stop = Stop::new();
        let user = async {
            cluster.wait_until_nodes_ready(2).await;
            cluster.create_pod(pod, json!({}));
            cluster
                .wait_until(pod, |pod| pod["status"]["phase"] == "Running")
                .await;
            stop.stop(Duration::from_secs(5));
        };
        let (ended, ()) = tokio::join!(simulator.run(stop.clone()), user);
        ended.unwrap();
    }
    cluster.api.clear_requests();
    sleep(Duration::from_mins(5)).await;
    assert!(cluster.api.writes().is_empty());
}
