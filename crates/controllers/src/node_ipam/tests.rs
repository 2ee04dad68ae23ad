//! Nodes that want networks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Event, Node};
use kubecontroller::testing::eventually_within;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::plan::CLAIM;
use crate::{
    context::{Cluster, Context, NodeNetworks, Task},
    resource::NODES,
    testing::{Stage, Story},
};

/// Nodes of both families, four networks each.
fn make(context: &Context) -> Vec<Task> {
    with(
        context,
        NodeNetworks {
            pods: vec!["10.244.0.0/22".to_owned(), "fd00:10::/62".to_owned()],
            ..NodeNetworks::default()
        },
    )
}

/// As in the usual cluster, but its services have the first of four networks.
fn make_beside_services(context: &Context) -> Vec<Task> {
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

fn with(context: &Context, node_networks: NodeNetworks) -> Vec<Task> {
    let mut context = context.clone();
    context.cluster = Arc::new(Cluster {
        node_networks,
        ..Cluster::default()
    });
    super::make(&context)
}

fn put(stage: &Stage, name: &str) {
    stage.put(&NODES, json!({"metadata": {"name": name}, "spec": {}}));
}

/// The networks of each node that has any.
fn networks(stage: &Stage) -> Vec<(String, Vec<String>)> {
    let nodes = stage.api.list::<Node>().into_iter();
    let networks = nodes.filter_map(|node| {
        let spec = node.spec?;
        let all = spec.pod_cidrs?;
        assert_eq!(spec.pod_cidr.as_ref(), all.first());
        Some((node.metadata.name?, all))
    });
    networks.collect()
}

async fn until(stage: &Stage, count: usize) -> Vec<(String, Vec<String>)> {
    eventually_within(Duration::from_mins(5), || {
        let found = networks(stage);
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
async fn each_node_gets_a_network_of_each_family() {
    let stage = Stage::new();
    for name in ["a", "b"] {
        put(&stage, name);
    }
    let _running = stage.start("k3", make);
    until(&stage, 2).await;
    put(&stage, "c");
    let found = until(&stage, 3).await;
    let expected = [
        ("a", "10.244.0.0/24", ""),
        ("b", "10.244.1.0/24", "1"),
        ("c", "10.244.2.0/24", "2"),
    ];
    for ((name, networks), (expected, v4, v6)) in found.into_iter().zip(expected) {
        let v6 = match v6 {
            "" => "fd00:10::/64".to_owned(),
            place => format!("fd00:10:0:{place}::/64"),
        };
        assert_eq!((&*name, networks), (expected, vec![v4.to_owned(), v6]));
    }
    sleep(Duration::from_secs(5)).await;
    stage.api.clear_requests();
    sleep(Duration::from_mins(10)).await;
    assert!(stage.api.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_node_has_it_keeps_and_nobody_else_gets() {
    let stage = Stage::new();
    stage.put(
        &NODES,
        json!({"metadata": {"name": "old"}, "spec": {"podCIDR": "10.0.0.16/28", "podCIDRs": ["10.0.0.16/28"]}}),
    );
    put(&stage, "new");
    put(&stage, "newer");
    let _running = stage.start("k3", make_beside_services);
    let found = until(&stage, 3).await;
    let all: BTreeSet<_> = found.iter().flat_map(|(_, networks)| networks).cloned().collect();
    let expected = ["10.0.0.16/28", "10.0.0.32/28", "10.0.0.48/28"];
    assert_eq!(all, expected.map(str::to_owned).into());
    assert_eq!(found[2], ("old".to_owned(), vec!["10.0.0.16/28".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_gets_none_is_told_of_and_gets_one_later() {
    let stage = Stage::new();
    for name in ["a", "b", "c"] {
        put(&stage, name);
    }
    let _running = stage.start("k3", make_beside_services);
    until(&stage, 3).await;
    put(&stage, "late");
    let told = || {
        let events = stage.api.list::<Event>();
        let told = events
            .into_iter()
            .find(|event| event.reason.as_deref() == Some("CIDRNotAvailable"));
        let told = told.and_then(|event| event.message);
        async move { told }
    };
    let message = eventually_within(Duration::from_mins(1), told).await;
    assert_eq!(message, "Node late status is now: CIDRNotAvailable");
    stage.api.remove::<Node>("", "b");
    let found = until(&stage, 3).await;
    assert_eq!(found[2], ("late".to_owned(), vec!["10.0.0.32/28".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn without_networks_of_the_cluster_nothing_runs() {
    let stage = Stage::new();
    put(&stage, "a");
    let _running = stage.start("k3", super::make);
    sleep(Duration::from_mins(5)).await;
    assert!(stage.api.requests().is_empty());
}

/// Three nodes at once, and a fourth one later. Who gets what depends on who was when interrupted; that all get something, and
/// no two the same, does not.
const STORY: Story = Story {
    make,
    setup: |stage| {
        for name in ["a", "b", "c"] {
            put(stage, name);
        }
    },
    play: |stage| {
        if networks(stage).len() == 3 && stage.api.get::<Node>("", "d").is_none() {
            put(stage, "d");
        }
        let found = networks(stage);
        let all: Vec<_> = found.iter().flat_map(|(_, networks)| networks).collect();
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), distinct.len(), "{found:?}");
    },
    end: |stage| {
        let found = networks(stage);
        let nodes = stage.api.list::<Node>().into_iter();
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
async fn whoever_crashes_no_two_nodes_get_the_same() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
