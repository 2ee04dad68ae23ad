//! Quotas, against an API in memory.

use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Secret};
use kubecontroller::{
    resource::{Resource, ResourceScope},
    testing::eventually,
};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::make;
use crate::{
    resource::{DEPLOYMENTS, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES},
    testing::{Scenario, TestCluster},
};

static CARTS: Resource = Resource::new("shop.example", "v1", "carts", "Cart", ResourceScope::Namespaced);
static SECRETS: Resource = Resource::new("", "v1", "secrets", "Secret", ResourceScope::Namespaced);

fn quota(name: &str, spec: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})
}

fn put(cluster: &TestCluster, resource: &Resource, name: &str, rest: &Value) {
    let mut object = json!({"metadata": {"name": name, "namespace": "shop"}});
    for (field, value) in rest.as_object().unwrap() {
        object[field] = value.clone();
    }
    cluster.put(resource, object);
}

fn pod(cluster: &TestCluster, name: &str, cpu: &str, more: &Value) {
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    put(
        cluster,
        &PODS,
        name,
        &json!({"spec": spec, "status": {"phase": "Running"}}),
    );
}

fn used(cluster: &TestCluster, name: &str) -> Option<Value> {
    let status = cluster.api.get::<ResourceQuota>("shop", name)?.status?;
    Some(json!(status.used?))
}

/// Registers the kinds that a server has.
fn kinds(cluster: &TestCluster) {
    for resource in [
        &PODS,
        &SERVICES,
        &SECRETS,
        &PERSISTENT_VOLUME_CLAIMS,
        &DEPLOYMENTS,
        &CARTS,
    ] {
        cluster
            .api
            .register_dynamic(&resource.api_resource(), ResourceScope::Namespaced);
    }
    cluster.api.register_dynamic(
        &crate::resource::DEVICE_CLASSES.api_resource(),
        ResourceScope::Cluster,
    );
}

/// Of two pods one ends, a secret is deleted; usage is updated before and after.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        kinds(cluster);
        pod(cluster, "stays", "300m", &json!({}));
        pod(cluster, "ends", "1", &json!({}));
        put(cluster, &SECRETS, "a", &json!({}));
        put(cluster, &SECRETS, "b", &json!({}));
        cluster.put(
            &RESOURCE_QUOTAS,
            quota(
                "q",
                &json!({"hard": {"pods": "5", "requests.cpu": "2", "secrets": "3", "count/pods": "9"}}),
            ),
        );
    },
    play: |cluster| {
        if cluster.now().as_second() > 1_767_225_633 {
            cluster.api.remove::<Secret>("shop", "b");
            cluster.api.edit::<Pod>("shop", "ends", |pod| {
                pod.status.as_mut().unwrap().phase = Some("Succeeded".to_owned());
            });
        }
    },
    end: |cluster| {
        let used = used(cluster, "q")?;
        (used["secrets"] == "1").then_some(used)
    },
};

#[tokio::test(start_paused = true)]
async fn updates_usage() {
    let (end, writes) = STORY.run().await;
    assert_eq!(
        end,
        json!({"pods": "1", "requests.cpu": "300m", "secrets": "1", "count/pods": "2"})
    );
    assert!(writes <= 3, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn updates_usage_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn scopes_select_pods() {
    let cluster = TestCluster::new();
    kinds(&cluster);
    pod(&cluster, "a", "1", &json!({"priorityClassName": "high"}));
    pod(
        &cluster,
        "b",
        "2",
        &json!({"priorityClassName": "low", "activeDeadlineSeconds": 5}),
    );
    let select = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]});
    for (name, spec, expected) in [
        (
            "all",
            json!({"hard": {"requests.cpu": "9"}}),
            json!({"requests.cpu": "3"}),
        ),
        (
            "ending",
            json!({"hard": {"requests.cpu": "9", "secrets": "1"}, "scopes": ["Terminating"]}),
            json!({"requests.cpu": "2", "secrets": "0"}),
        ),
        (
            "high",
            json!({"hard": {"pods": "9"}, "scopeSelector": select("In", &["high"])}),
            json!({"pods": "1"}),
        ),
        (
            "none",
            json!({"hard": {"pods": "9"}, "scopes": ["BestEffort"]}),
            json!({"pods": "0"}),
        ),
    ] {
        cluster.put(&RESOURCE_QUOTAS, quota(name, &spec));
        let _running = cluster.start("one", make);
        let found = eventually(|| {
            let found = used(&cluster, name);
            async move { found }
        });
        assert_eq!(found.await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn counts_objects_of_any_kind() {
    let cluster = TestCluster::new();
    kinds(&cluster);
    for name in ["a", "b", "c"] {
        put(&cluster, &CARTS, name, &json!({}));
    }
    put(
        &cluster,
        &SERVICES,
        "s",
        &json!({"spec": {"type": "NodePort", "ports": [{"port": 1}]}}),
    );
    let claim = json!({"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "2Gi"}}}});
    put(&cluster, &PERSISTENT_VOLUME_CLAIMS, "c", &claim);
    let hard = json!({
        "count/carts.shop.example": "5", "count/deployments.apps": "1", "services.nodeports": "2", "requests.storage": "9Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1", "count/unheard.of": "1",
    });
    cluster.put(&RESOURCE_QUOTAS, quota("q", &json!({"hard": hard})));
    let _running = cluster.start("one", make);
    let found = eventually(|| {
        let found = used(&cluster, "q");
        async move { found }
    });
    let expected = json!({
        "count/carts.shop.example": "3", "count/deployments.apps": "0", "services.nodeports": "1", "requests.storage": "2Gi",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
    });
    assert_eq!(found.await, expected);
    cluster.api.clear_requests();
    sleep(Duration::from_mins(20)).await;
    assert_eq!(cluster.api.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn recounts_periodically() {
    let cluster = TestCluster::new();
    kinds(&cluster);
    cluster.put(&RESOURCE_QUOTAS, quota("q", &json!({"hard": {"pods": "5"}})));
    let _running = cluster.start("one", make);
    let count = || used(&cluster, "q").map(|used| used["pods"].clone());
    let first = eventually(|| {
        let found = count();
        async move { found }
    });
    assert_eq!(first.await, "0");
    // Stored after the count, and charged before it: soon after a change it is counted again.
    pod(&cluster, "a", "1", &json!({}));
    sleep(Duration::from_secs(11)).await;
    assert_eq!(count(), Some(json!("1")));
    // Otherwise all is counted every few minutes.
    sleep(Duration::from_secs(11)).await;
    pod(&cluster, "b", "1", &json!({}));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(count(), Some(json!("1")));
    sleep(Duration::from_mins(4)).await;
    assert_eq!(count(), Some(json!("2")));
}
