//! Nodes and their leases.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kubecontroller::manager::{Runnable, Stop};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::stage::TestCluster;

#[tokio::test(start_paused = true)]
async fn a_node_registers_as_a_kubelet_does() {
    let stage = TestCluster::new();
    let _running = stage.start("one", 2, "nodes: [{zones: [a, b], region: north}]");
    stage.until_nodes(2).await;
    let node = stage.node("simulated-1").unwrap();
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
    let lease = stage.api.get::<Lease>("kube-node-lease", "simulated-1").unwrap();
    let lease = serde_json::to_value(lease).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "simulated-1");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(
        lease["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": "simulated-1", "uid": node["metadata"]["uid"]}])
    );
}

#[tokio::test(start_paused = true)]
async fn addresses_of_older_versions_are_replaced() {
    let stage = TestCluster::new();
    let _running = stage.start("one", 1, "");
    stage.until_nodes(1).await;
    let older = json!([{"type": "InternalIP", "address": "172.16.0.1"}, {"type": "Hostname", "address": "simulated-0"}]);
    stage
        .api
        .edit::<k8s_openapi::api::core::v1::Node>("", "simulated-0", |node| {
            node.status.get_or_insert_default().addresses = serde_json::from_value(older.clone()).unwrap();
        });
    kubecontroller::testing::eventually(async || {
        stage.node("simulated-0").unwrap()["status"]["addresses"][0]["address"] == "198.18.0.1"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_leases_are_renewed_evenly_and_nothing_else_is_written() {
    let stage = TestCluster::new();
    let _running = stage.start("one", 1000, "");
    stage.until_nodes(1000).await;
    sleep(Duration::from_secs(20)).await;
    stage.api.clear_requests();
    for second in 0..20 {
        let before = stage.api.writes().len();
        sleep(Duration::from_secs(1)).await;
        let writes = stage.api.writes().len() - before;
        // Nodes say every five minutes how they are.
        assert!((90..=115).contains(&writes), "{writes} in second {second}");
    }
    let mut renewals = BTreeMap::<String, usize>::new();
    for write in stage.api.writes() {
        if write.is_for("leases.coordination.k8s.io") {
            *renewals.entry(write.name.clone()).or_default() += 1;
        }
    }
    assert_eq!(renewals.len(), 1000);
    assert!(renewals.values().all(|times| *times == 2), "{renewals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_is_heard_of_every_five_minutes() {
    let stage = TestCluster::new();
    let _running = stage.start("one", 1, "");
    stage.until_nodes(1).await;
    sleep(Duration::from_mins(6)).await;
    stage.api.clear_requests();
    let heartbeat =
        |stage: &TestCluster| stage.node("simulated-0").unwrap()["status"]["conditions"][3].clone();
    let before = heartbeat(&stage);
    sleep(Duration::from_mins(5)).await;
    let after = heartbeat(&stage);
    assert_ne!(before["lastHeartbeatTime"], after["lastHeartbeatTime"]);
    assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);
    let writes = stage.api.writes();
    let heartbeats = writes.iter().filter(|write| write.is_for("nodes/status")).count();
    assert_eq!(heartbeats, 1);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_node_becomes_ready_again() {
    let stage = TestCluster::new();
    let _running = stage.start("one", 1, "");
    stage.until_nodes(1).await;
    stage.api.edit::<Node>("", "simulated-0", |node| {
        let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
        for condition in conditions {
            condition.status = "Unknown".to_owned();
        }
    });
    stage.until_nodes(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_stays_away_until_the_next_start() {
    let stage = TestCluster::new();
    let running = stage.start("one", 2, "");
    stage.until_nodes(2).await;
    stage.api.remove::<Node>("", "simulated-1");
    stage.api.remove::<Lease>("kube-node-lease", "simulated-1");
    sleep(Duration::from_mins(20)).await;
    stage.until_nodes(1).await;
    drop(running);
    let _running = stage.start("two", 2, "");
    stage.until_nodes(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_vanishes_with_its_pods_and_returns() {
    let stage = TestCluster::new();
    let _running = stage.start("one", 1, "nodes: [{vanish: {after: 1m, for: 2m}}]");
    stage.until_nodes(1).await;
    let renewed = |stage: &TestCluster| -> Value {
        let lease = stage.api.get::<Lease>("kube-node-lease", "simulated-0").unwrap();
        serde_json::to_value(lease).unwrap()["spec"]["renewTime"].clone()
    };
    sleep(Duration::from_secs(61)).await;
    let before = renewed(&stage);
    stage.put("late", json!({}));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(before, renewed(&stage));
    assert_eq!(stage.pod("late").unwrap()["status"], json!({"phase": "Pending"}));
    stage
        .until("late", |pod| pod["status"]["phase"] == "Running")
        .await;
    assert!(stage.now() >= "2026-01-01T00:03:00Z".parse().unwrap());
    sleep(Duration::from_secs(1)).await;
    assert_ne!(before, renewed(&stage));
}

#[tokio::test(start_paused = true)]
async fn a_simulator_that_was_stopped_runs_again() {
    let stage = TestCluster::new();
    let (simulator, _informers) = stage.simulator("one", 2, "");
    for pod in ["first", "second", "third"] {
        let stop = Stop::new();
        let user = async {
            stage.until_nodes(2).await;
            stage.put(pod, json!({}));
            stage.until(pod, |pod| pod["status"]["phase"] == "Running").await;
            stop.stop(Duration::from_secs(5));
        };
        let (ended, ()) = tokio::join!(simulator.run(stop.clone()), user);
        ended.unwrap();
    }
    stage.api.clear_requests();
    sleep(Duration::from_mins(5)).await;
    assert!(stage.api.writes().is_empty());
}
