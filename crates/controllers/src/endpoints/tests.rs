//! Endpoints, against an API in memory.

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kubecontroller::testing::{Fault, RequestMatcher, eventually};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{ENDPOINTS, PODS, SERVICES},
    services::examples::{pod, service},
    testing::{Stage, Story},
};

/// Who is told to be ready and not ready.
fn told(stage: &Stage, name: &str) -> Option<Value> {
    let endpoints = stage.api.get::<Endpoints>("shop", name)?;
    let subsets = json!(endpoints.subsets.unwrap_or_default());
    Some(subsets)
}

/// One service gets a pod, loses one, and has one that is not ready; another is deleted; one was deleted before.
const STORY: Story = Story {
    make,
    setup: |stage| {
        stage.put(&SERVICES, service("web"));
        stage.put(&SERVICES, service("old"));
        let gone = json!({"metadata": {"name": "gone", "namespace": "shop"}});
        stage.put(&ENDPOINTS, gone);
        let lock = json!({"metadata": {"name": "lock", "namespace": "shop",
            "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
        stage.put(&ENDPOINTS, lock);
        stage.put(&PODS, pod("a", "web", "10.1.0.1"));
        stage.put(&PODS, pod("b", "web", "10.1.0.2"));
        stage.put(&PODS, pod("d", "old", "10.1.0.4"));
    },
    play: |stage| {
        let is_told = |name: &str| told(stage, name).is_some();
        if is_told("web") && stage.api.get::<Pod>("shop", "c").is_none() {
            stage.api.remove::<Pod>("shop", "a");
            let mut waiting = pod("c", "web", "10.1.0.3");
            waiting["status"]["conditions"] = json!([]);
            stage.put(&PODS, waiting);
        }
        if is_told("old") {
            stage.api.remove::<Service>("shop", "old");
        }
    },
    end: |stage| {
        let web = told(stage, "web")?;
        let is_done =
            web[0]["notReadyAddresses"][0]["targetRef"]["name"] == "c" && told(stage, "gone").is_none();
        let names = stage
            .api
            .list::<Endpoints>()
            .into_iter()
            .map(|endpoints| endpoints.metadata.name);
        let addresses = [&web[0]["addresses"], &web[0]["notReadyAddresses"]];
        let ips = addresses.map(|list| {
            list.as_array()
                .map(|list| list.iter().map(|one| one["ip"].clone()).collect::<Vec<_>>())
        });
        (is_done && told(stage, "old").is_none())
            .then(|| json!({"names": names.collect::<Vec<_>>(), "web": ips}))
    },
};

#[tokio::test(start_paused = true)]
async fn endpoints_follow_pods_and_services() {
    let (end, writes) = STORY.run().await;
    let web = json!([["10.1.0.2"], ["10.1.0.3"]]);
    assert_eq!(end, json!({"names": ["lock", "web"], "web": web}));
    assert_eq!(writes, 5);
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_endpoints_follow_pods_and_services() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_tell_since_when_and_whose_they_are() {
    let stage = Stage::new();
    stage.put(&PODS, pod("a", "web", "10.1.0.1"));
    stage.put(&SERVICES, service("web"));
    let _running = stage.start("k3", make);
    let look = |stage: &Stage| {
        let meta = stage.api.get::<Endpoints>("shop", "web")?.metadata;
        Some(
            json!({"labels": meta.labels, "annotations": meta.annotations.filter(|notes| !notes.is_empty())}),
        )
    };
    let made = eventually(|| async { look(&stage) }).await;
    let labels = json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let since = |time: &str| json!({"endpoints.kubernetes.io/last-change-trigger-time": time});
    assert_eq!(
        made,
        json!({"labels": labels, "annotations": since("2026-01-01T00:00:30Z")})
    );
    let mut later = pod("b", "web", "10.1.0.2");
    later["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:40Z");
    stage.put(&PODS, later);
    eventually(|| async { look(&stage).filter(|told| told["annotations"] == since("2026-01-01T00:00:40Z")) })
        .await;
    // Nothing is known of why others changed them.
    stage
        .api
        .edit::<Endpoints>("shop", "web", |endpoints| endpoints.subsets = None);
    stage
        .api
        .edit::<Service>("shop", "web", |service| service.metadata.labels = None);
    eventually(|| async { look(&stage).filter(|told| told["annotations"].is_null()) }).await;
    stage.api.remove::<Endpoints>("shop", "web");
    eventually(|| async { look(&stage) }).await;
}

#[tokio::test(start_paused = true)]
async fn services_that_choose_no_pods_are_left_alone() {
    let stage = Stage::new();
    stage.put(&PODS, pod("a", "web", "10.1.0.1"));
    let mut manual = service("manual");
    manual["spec"]["selector"] = json!({});
    stage.put(&SERVICES, manual);
    let mut name = service("web");
    name["spec"]["type"] = json!("ExternalName");
    stage.put(&SERVICES, name);
    stage.put(&SERVICES, service("other"));
    let _running = stage.start("k3", make);
    eventually(|| async { told(&stage, "other") }).await;
    assert_eq!(stage.api.list::<Endpoints>().len(), 1);
    assert_eq!(stage.api.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn people_are_told_what_cannot_be_written() {
    let stage = Stage::new();
    stage.put(&SERVICES, service("web"));
    stage.api.faults().on(
        RequestMatcher::verb("create").resource("endpoints").times(1),
        Fault::Status(403),
    );
    let _running = stage.start("k3", make);
    eventually(|| async { told(&stage, "web") }).await;
    let event = eventually(|| async { stage.api.list::<k8s_openapi::api::core::v1::Event>().pop() }).await;
    assert_eq!(event.reason.as_deref(), Some("FailedToCreateEndpoint"));
    let message = event.message.unwrap();
    assert!(
        message.starts_with("Failed to create endpoint for service shop/web: "),
        "{message}"
    );
}
