//! Slices of endpoints that others write, against an API in memory.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    core::v1::{Endpoints, Event, Service},
    discovery::v1::EndpointSlice,
};
use kubecontroller::testing::eventually;
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{ENDPOINTS, SERVICES},
    testing::{Scenario, TestCluster},
};

fn service(name: &str, selector: Value) -> Value {
    let mut service = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {}});
    if !selector.is_null() {
        service["spec"]["selector"] = selector;
    }
    service
}

fn endpoints(name: &str, ips: &[&str]) -> Value {
    let addresses: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    let metadata = json!({"name": name, "namespace": "shop", "labels": {"team": "a"}});
    json!({"metadata": metadata, "subsets": [{"addresses": addresses, "ports": ports}]})
}

/// The addresses in the slices of each service.
fn addresses_by_service(cluster: &TestCluster) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut told: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    for slice in cluster.api.list::<EndpointSlice>() {
        let labels = slice.metadata.labels.unwrap_or_default();
        let service = labels
            .get("kubernetes.io/service-name")
            .cloned()
            .unwrap_or_default();
        let endpoints = slice.endpoints.into_iter().flatten();
        told.entry(service)
            .or_default()
            .push(endpoints.flat_map(|endpoint| endpoint.addresses).collect());
    }
    told
}

/// One changes, one gets a selector; one has a selector, and one no service.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        for name in ["manual", "later"] {
            cluster.put(&SERVICES, service(name, json!(null)));
            cluster.put(&ENDPOINTS, endpoints(name, &["10.0.0.1", "fd00::1"]));
        }
        cluster.put(&SERVICES, service("chosen", json!({"app": "a"})));
        cluster.put(&ENDPOINTS, endpoints("chosen", &["10.0.0.1"]));
        cluster.put(&ENDPOINTS, endpoints("alone", &["10.0.0.1"]));
        let mut skipped = endpoints("skipped", &["10.0.0.1"]);
        skipped["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = json!("true");
        cluster.put(&SERVICES, service("skipped", json!(null)));
        cluster.put(&ENDPOINTS, skipped);
    },
    play: |cluster| {
        let told = addresses_by_service(cluster);
        if ["manual", "later"]
            .iter()
            .all(|name| told.get(*name).is_some_and(|slices| slices.len() == 2))
        {
            cluster.put(&ENDPOINTS, endpoints("manual", &["10.0.0.2"]));
            cluster.api.edit::<Service>("shop", "later", |service| {
                service.spec.as_mut().unwrap().selector = Some([("app".to_owned(), "a".to_owned())].into());
            });
        }
    },
    end: |cluster| {
        let told = addresses_by_service(cluster);
        (told == [("manual".to_owned(), vec![vec!["10.0.0.2".to_owned()]])].into()).then(|| json!(told))
    },
};

#[tokio::test(start_paused = true)]
async fn slices_tell_what_endpoints_tell() {
    let (_, writes) = STORY.run().await;
    // Four are made, one changes, three go.
    assert_eq!(writes, 8);
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_slices_tell_what_endpoints_tell() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_says_what_it_tells_of() {
    let cluster = TestCluster::new();
    cluster.put(&SERVICES, service("manual", json!(null)));
    let mut with = endpoints("manual", &["10.0.0.1", "nowhere"]);
    with["metadata"]["annotations"] = json!({"a": "b"});
    let uid = cluster.put(&ENDPOINTS, with)["metadata"]["uid"].clone();
    let _running = cluster.start("k3", make);
    let meta = eventually(|| async { cluster.api.list::<EndpointSlice>().pop() })
        .await
        .metadata;
    assert_eq!(
        json!(meta.labels),
        json!({"team": "a", "kubernetes.io/service-name": "manual",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
    );
    assert_eq!(json!(meta.annotations), json!({"a": "b"}));
    assert_eq!(json!(meta.owner_references)[0]["kind"], "Endpoints");
    assert_eq!(json!(meta.owner_references)[0]["uid"], uid);
    let event = eventually(|| async { cluster.api.list::<Event>().pop() }).await;
    assert_eq!(
        event.message.as_deref(),
        Some("Skipped 1 invalid IP addresses when mirroring to EndpointSlices")
    );
    cluster.api.remove::<Endpoints>("shop", "manual");
    eventually(|| async { addresses_by_service(&cluster).is_empty().then_some(()) }).await;
}
