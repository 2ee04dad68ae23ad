//! Endpoints, against an API in memory.

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kubecontroller::testing::{Fault, RequestMatcher, eventually};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{ENDPOINTS, PODS, SERVICES},
    services::tests::{pod, service},
    testing::{Scenario, TestCluster},
};

/// Ready and unready addresses.
fn reported_addresses(cluster: &TestCluster, name: &str) -> Option<Value> {
    let endpoints = cluster.api.get::<Endpoints>("shop", name)?;
    let subsets = json!(endpoints.subsets.unwrap_or_default());
    Some(subsets)
}

/// One service gets a pod, loses one, and has one that is not ready; another is deleted; one was deleted before.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        cluster.put(&SERVICES, service("web"));
        cluster.put(&SERVICES, service("old"));
        let deleted = json!({"metadata": {"name": "deleted", "namespace": "shop"}});
        cluster.put(&ENDPOINTS, deleted);
        let lock = json!({"metadata": {"name": "lock", "namespace": "shop",
            "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
        cluster.put(&ENDPOINTS, lock);
        cluster.put(&PODS, pod("a", "web", "10.1.0.1"));
        cluster.put(&PODS, pod("b", "web", "10.1.0.2"));
        cluster.put(&PODS, pod("d", "old", "10.1.0.4"));
    },
    play: |cluster| {
        let is_reported = |name: &str| reported_addresses(cluster, name).is_some();
        if is_reported("web") && cluster.api.get::<Pod>("shop", "c").is_none() {
            cluster.api.remove::<Pod>("shop", "a");
            let mut waiting = pod("c", "web", "10.1.0.3");
            waiting["status"]["conditions"] = json!([]);
            cluster.put(&PODS, waiting);
        }
        if is_reported("old") {
            cluster.api.remove::<Service>("shop", "old");
        }
    },
    end: |cluster| {
        let web = reported_addresses(cluster, "web")?;
        let is_done = web[0]["notReadyAddresses"][0]["targetRef"]["name"] == "c"
            && reported_addresses(cluster, "deleted").is_none();
        let names = cluster
            .api
            .list::<Endpoints>()
            .into_iter()
            .map(|endpoints| endpoints.metadata.name);
        let addresses = [&web[0]["addresses"], &web[0]["notReadyAddresses"]];
        let ips = addresses.map(|list| {
            list.as_array()
                .map(|list| list.iter().map(|one| one["ip"].clone()).collect::<Vec<_>>())
        });
        (is_done && reported_addresses(cluster, "old").is_none())
            .then(|| json!({"names": names.collect::<Vec<_>>(), "web": ips}))
    },
};

#[tokio::test(start_paused = true)]
async fn updates_endpoints_with_pods_and_services() {
    let (end, writes) = STORY.run().await;
    let web = json!([["10.1.0.2"], ["10.1.0.3"]]);
    assert_eq!(end, json!({"names": ["lock", "web"], "web": web}));
    assert_eq!(writes, 5);
}

#[tokio::test(start_paused = true)]
async fn updates_endpoints_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_have_trigger_time_and_labels() {
    let cluster = TestCluster::new();
    cluster.put(&PODS, pod("a", "web", "10.1.0.1"));
    cluster.put(&SERVICES, service("web"));
    let _running = cluster.start("k3", make);
    let look = |cluster: &TestCluster| {
        let meta = cluster.api.get::<Endpoints>("shop", "web")?.metadata;
        Some(
            json!({"labels": meta.labels, "annotations": meta.annotations.filter(|annotations| !annotations.is_empty())}),
        )
    };
    let written = eventually(|| async { look(&cluster) }).await;
    let labels = json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let since = |time: &str| json!({"endpoints.kubernetes.io/last-change-trigger-time": time});
    assert_eq!(
        written,
        json!({"labels": labels, "annotations": since("2026-01-01T00:00:30Z")})
    );
    let mut later = pod("b", "web", "10.1.0.2");
    later["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:40Z");
    cluster.put(&PODS, later);
    eventually(|| async {
        look(&cluster).filter(|reported| reported["annotations"] == since("2026-01-01T00:00:40Z"))
    })
    .await;
    // Nothing is known of why others changed them.
    cluster
        .api
        .edit::<Endpoints>("shop", "web", |endpoints| endpoints.subsets = None);
    cluster
        .api
        .edit::<Service>("shop", "web", |service| service.metadata.labels = None);
    eventually(|| async { look(&cluster).filter(|reported| reported["annotations"].is_null()) }).await;
    cluster.api.remove::<Endpoints>("shop", "web");
    eventually(|| async { look(&cluster) }).await;
}

#[tokio::test(start_paused = true)]
async fn ignores_services_without_selector() {
    let cluster = TestCluster::new();
    cluster.put(&PODS, pod("a", "web", "10.1.0.1"));
    let mut manual = service("manual");
    manual["spec"]["selector"] = json!({});
    cluster.put(&SERVICES, manual);
    let mut name = service("web");
    name["spec"]["type"] = json!("ExternalName");
    cluster.put(&SERVICES, name);
    cluster.put(&SERVICES, service("other"));
    let _running = cluster.start("k3", make);
    eventually(|| async { reported_addresses(&cluster, "other") }).await;
    assert_eq!(cluster.api.list::<Endpoints>().len(), 1);
    assert_eq!(cluster.api.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn records_write_failures() {
    let cluster = TestCluster::new();
    cluster.put(&SERVICES, service("web"));
    cluster.api.faults().on(
        RequestMatcher::verb("create").resource("endpoints").times(1),
        Fault::Status(403),
    );
    let _running = cluster.start("k3", make);
    eventually(|| async { reported_addresses(&cluster, "web") }).await;
    let event = eventually(|| async { cluster.api.list::<k8s_openapi::api::core::v1::Event>().pop() }).await;
    assert_eq!(event.reason.as_deref(), Some("FailedToCreateEndpoint"));
    let message = event.message.unwrap();
    assert!(
        message.starts_with("Failed to create endpoint for service shop/web: "),
        "{message}"
    );
}
