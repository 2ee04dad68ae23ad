//! Slices, against an API in memory.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Event, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kubecontroller::testing::eventually;
use serde_json::json;

use super::make;
use crate::{
    resource::{NODES, PODS, SERVICES},
    services::tests::{pod, service},
    testing::{Scenario, TestCluster},
};

fn put_pods(cluster: &TestCluster, app: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let ip = format!("10.1.{}.{}", number / 200, number % 200);
        cluster.put(&PODS, pod(&format!("{app}-{number:03}"), app, &ip));
    }
}

/// The pods in each slice of a service, without the names of slices.
fn join_messages(cluster: &TestCluster, service: &str) -> Vec<Vec<String>> {
    let is_of = |slice: &EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        labels
            .and_then(|labels| labels.get("kubernetes.io/service-name"))
            .is_some_and(|name| name == service)
    };
    let slices = cluster.api.list::<EndpointSlice>().into_iter().filter(is_of);
    let mut slices: Vec<Vec<String>> = slices
        .map(|slice| {
            let targets = slice
                .endpoints
                .into_iter()
                .flatten()
                .filter_map(|endpoint| endpoint.target_ref?.name);
            let mut names: Vec<String> = targets.collect();
            names.sort();
            names
        })
        .collect();
    slices.sort();
    slices
}

fn all(slices: &[Vec<String>]) -> BTreeMap<&str, usize> {
    let mut all = BTreeMap::new();
    slices
        .iter()
        .flatten()
        .for_each(|name| *all.entry(&**name).or_default() += 1);
    all
}

/// A service with more pods than fit into one slice loses some and gets others; one has no pods.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        cluster.put(&NODES, json!({"metadata": {"name": "n1"}}));
        cluster.put(&SERVICES, service("web"));
        cluster.put(&SERVICES, service("empty"));
        put_pods(cluster, "web", 0..120);
    },
    play: |cluster| {
        let is_full = all(&join_messages(cluster, "web")).len() == 120;
        if is_full && cluster.api.get::<Pod>("shop", "web-120").is_none() {
            cluster.api.remove::<Pod>("shop", "web-000");
            cluster.api.remove::<Pod>("shop", "web-119");
            put_pods(cluster, "web", 120..125);
        }
    },
    end: |cluster| {
        let web = join_messages(cluster, "web");
        let empty = join_messages(cluster, "empty");
        let pods = all(&web);
        let is_done = pods.len() == 123 && pods.values().all(|count| *count == 1) && web.len() == 2;
        (is_done && empty.len() == 1)
            .then(|| json!({"pods": pods.keys().collect::<Vec<_>>(), "empty": empty}))
    },
};

#[tokio::test(start_paused = true)]
async fn updates_slices_with_pods() {
    let (end, writes) = STORY.run().await;
    assert_eq!(end["empty"], json!([[]]));
    assert_eq!(end["pods"].as_array().map(Vec::len), Some(123));
    // Three are made, and both of the full service change once.
    assert_eq!(writes, 5);
}

#[tokio::test(start_paused = true)]
async fn updates_slices_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn slice_has_owner_labels_and_conditions() {
    let cluster = TestCluster::new();
    cluster.put(
        &NODES,
        json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}}),
    );
    let web = cluster.put(&SERVICES, service("web"));
    let mut named = pod("a", "web", "10.1.0.1");
    named["spec"]["hostname"] = json!("h");
    named["spec"]["subdomain"] = json!("web");
    let uid = cluster.put(&PODS, named)["metadata"]["uid"].clone();
    let _running = cluster.start("k3", make);
    let slice = eventually(|| async { cluster.api.list::<EndpointSlice>().pop() }).await;
    let meta = slice.metadata;
    assert!(meta.name.as_ref().unwrap().starts_with("web-"));
    assert_eq!(meta.generate_name.as_deref(), Some("web-"));
    assert_eq!(
        json!(meta.labels),
        json!({"team": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(
        json!(meta.annotations),
        json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:30Z"})
    );
    assert_eq!(
        json!(meta.owner_references),
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": web["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(
        json!(slice.endpoints),
        json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "hostname": "h", "nodeName": "n1", "zone": "z",
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": "a", "uid": uid}}])
    );
    assert_eq!(
        json!(slice.ports),
        json!([{"name": "", "port": 8080, "protocol": "TCP"}])
    );
}

#[tokio::test(start_paused = true)]
async fn adds_a_pod_when_its_node_appears() {
    let cluster = TestCluster::new();
    cluster.put(&SERVICES, service("web"));
    put_pods(&cluster, "web", 0..1);
    let _running = cluster.start("k3", make);
    let event = eventually(|| async { cluster.api.list::<Event>().pop() }).await;
    assert_eq!(event.reason.as_deref(), Some("FailedToUpdateEndpointSlices"));
    let expected = "Error updating Endpoint Slices for Service shop/web: \
        skipping Pod web-000 for Service shop/web: Node n1 Not Found";
    assert_eq!(event.message.as_deref(), Some(expected));
    assert_eq!(join_messages(&cluster, "web"), [Vec::<String>::new()]);
    cluster.put(&NODES, json!({"metadata": {"name": "n1"}}));
    eventually(|| async { (join_messages(&cluster, "web") == [["web-000"]]).then_some(()) }).await;
}

#[tokio::test(start_paused = true)]
async fn reverts_foreign_changes_to_slices() {
    let cluster = TestCluster::new();
    cluster.put(&NODES, json!({"metadata": {"name": "n1"}}));
    cluster.put(&SERVICES, service("web"));
    put_pods(&cluster, "web", 0..2);
    let _running = cluster.start("k3", make);
    let is_restored = || (join_messages(&cluster, "web") == [["web-000", "web-001"]]).then_some(());
    eventually(|| async { is_restored() }).await;
    let name = cluster.api.list::<EndpointSlice>()[0]
        .metadata
        .name
        .clone()
        .unwrap();
    cluster
        .api
        .edit::<EndpointSlice>("shop", &name, |slice| slice.endpoints = None);
    eventually(|| async { is_restored() }).await;
    cluster.api.remove::<EndpointSlice>("shop", &name);
    eventually(|| async { is_restored() }).await;
    // Nothing more is written when all is as it should be, or when the service goes.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    cluster.api.clear_requests();
    cluster.api.remove::<Service>("shop", "web");
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(cluster.api.writes().len(), 0);
}
