//! Nodes that want networks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Event, Node};
use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::allocate::CLAIM;
use crate::{
    context::{ClusterConfig, ControllerContext, NodeNetworks, Task},
    resource::NODES,
    testing::{Scenario, TestCluster},
};

/// Nodes of both families, four networks each.
fn make(context: &ControllerContext) -> Vec<Task> {
    with(
        context,
        NodeNetworks {
            pods: vec!["10.244.0.0/22".to_owned(), "fd00:10::/62".to_owned()],
            ..NodeNetworks::default()
        },
    )
}

/// As in the usual cluster, but its services have the first of four networks.
fn make_beside_services(context: &ControllerContext) -> Vec<Task> {
    with(
        context,
        NodeNetworks {
            pods: vec!["10.0.0.0/26".to_owned()],
            services: vec!["10.0.0.0/30".to_owned()],
            block_v4: Some(28),
            ..NodeNetworks::default()
        },
    )
}

fn with(context: &ControllerContext, node_networks: NodeNetworks) -> Vec<Task> {
    let mut context = context.clone();
    context.cluster = Arc::new(ClusterConfig {
        node_networks,
        ..ClusterConfig::default()
    });
    super::make(&context)
}

fn put(cluster: &TestCluster, name: &str) {
    cluster.put(&NODES, json!({"metadata": {"name": name}, "spec": {}}));
}

/// The networks of each node that has any.
fn networks(cluster: &TestCluster) -> Vec<(String, Vec<String>)> {
    let nodes = cluster.api.list::<Node>().into_iter();
    let networks = nodes.filter_map(|node| {
        let spec = node.spec?;
        let all = spec.pod_cidrs?;
        assert_eq!(spec.pod_cidr.as_ref(), all.first());
        Some((node.metadata.name?, all))
    });
    networks.collect()
}

async fn until(cluster: &TestCluster, count: usize) -> Vec<(String, Vec<String>)> {
    eventually_within(Duration::from_mins(5), || {
        let found = networks(cluster);
        async move {
            if found.len() == count {
                Ok(found)
            } else {
                Err(found)
            }
        }
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn assigns_one_cidr_per_address_type() {
    let cluster = TestCluster::new();
    for name in ["a", "b"] {
        put(&cluster, name);
    }
    let _running = cluster.start("k3", make);
    until(&cluster, 2).await;
    put(&cluster, "c");
    let found = until(&cluster, 3).await;
    let expected = [
        ("a", "10.244.0.0/24", ""),
        ("b", "10.244.1.0/24", "1"),
        ("c", "10.244.2.0/24", "2"),
    ];
    for ((name, networks), (expected, v4, v6)) in found.into_iter().zip(expected) {
        let v6 = match v6 {
            "" => "fd00:10::/64".to_owned(),
            object_ref => format!("fd00:10:0:{object_ref}::/64"),
        };
        assert_eq!((&*name, networks), (expected, vec![v4.to_owned(), v6]));
    }
    sleep(Duration::from_secs(5)).await;
    cluster.api.clear_requests();
    sleep(Duration::from_mins(10)).await;
    assert!(cluster.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn keeps_existing_cidrs() {
    let cluster = TestCluster::new();
    cluster.put(
        &NODES,
        json!({"metadata": {"name": "old"}, "spec": {"podCIDR": "10.0.0.16/28", "podCIDRs": ["10.0.0.16/28"]}}),
    );
    put(&cluster, "new");
    put(&cluster, "newer");
    let _running = cluster.start("k3", make_beside_services);
    let found = until(&cluster, 3).await;
    let all: BTreeSet<_> = found.iter().flat_map(|(_, networks)| networks).cloned().collect();
    let expected = ["10.0.0.16/28", "10.0.0.32/28", "10.0.0.48/28"];
    assert_eq!(all, expected.map(str::to_owned).into());
    assert_eq!(found[2], ("old".to_owned(), vec!["10.0.0.16/28".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn reports_exhausted_ranges_and_retries() {
    let cluster = TestCluster::new();
    for name in ["a", "b", "c"] {
        put(&cluster, name);
    }
    let _running = cluster.start("k3", make_beside_services);
    until(&cluster, 3).await;
    put(&cluster, "late");
    let reported = || {
        let events = cluster.api.list::<Event>();
        let reported = events
            .into_iter()
            .find(|event| event.reason.as_deref() == Some("CIDRNotAvailable"));
        let reported = reported.and_then(|event| event.message);
        async move { reported }
    };
    let message = eventually_within(Duration::from_mins(1), reported).await;
    assert_eq!(message, "Node late status is now: CIDRNotAvailable");
    cluster.api.remove::<Node>("", "b");
    let found = until(&cluster, 3).await;
    assert_eq!(found[2], ("late".to_owned(), vec!["10.0.0.32/28".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn is_disabled_without_cluster_cidrs() {
    let cluster = TestCluster::new();
    put(&cluster, "a");
    let _running = cluster.start("k3", super::make);
    sleep(Duration::from_mins(5)).await;
    assert!(cluster.api.requests().is_empty());
}

/// Three nodes at once, and a fourth one later. Who gets what depends on who was when interrupted; that all get something, and
/// no two the same, does not.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        for name in ["a", "b", "c"] {
            put(cluster, name);
        }
    },
    play: |cluster| {
        if networks(cluster).len() == 3 && cluster.api.get::<Node>("", "d").is_none() {
            put(cluster, "d");
        }
        let found = networks(cluster);
        let all: Vec<_> = found.iter().flat_map(|(_, networks)| networks).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), distinct.len(), "{found:?}");
    },
    end: |cluster| {
        let found = networks(cluster);
        let nodes = cluster.api.list::<Node>().into_iter();
        let claims = nodes
            .filter(|node| {
                let annotations = node.metadata.annotations.as_ref();
                annotations.is_some_and(|annotations| annotations.contains_key(CLAIM))
            })
            .count();
        (found.len() == 4 && claims == 0).then(|| Value::from(found.len()))
    },
};

#[tokio::test(start_paused = true)]
async fn never_assigns_a_cidr_twice_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
