//! Networks of services, against an API in memory.

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{IP_ADDRESSES, SERVICE_CIDRS},
    testing::{Scenario, TestCluster},
};

fn put(cluster: &TestCluster, name: &str, cidr: &str) {
    cluster.put(
        &SERVICE_CIDRS,
        json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}}),
    );
}

fn condition(cluster: &TestCluster, name: &str) -> Option<Value> {
    let cidr = cluster.api.get::<ServiceCIDR>("", name)?;
    let condition = cidr.status?.conditions?.pop()?;
    let finalizers = cidr.metadata.finalizers.unwrap_or_default();
    Some(json!([
        condition.status,
        condition.reason,
        condition.message,
        finalizers
    ]))
}

/// All become ready; one of which an address is used and one that is unused are deleted; then the address is free.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        put(cluster, "kept", "10.0.0.0/24");
        put(cluster, "used", "10.1.0.0/24");
        put(cluster, "free", "10.2.0.0/24");
        let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"});
        cluster.put(
            &IP_ADDRESSES,
            json!({"metadata": {"name": "10.1.0.5", "labels": labels}, "spec": {}}),
        );
    },
    play: |cluster| {
        let is = |name: &str, status: &str| condition(cluster, name).is_some_and(|found| found[0] == status);
        let names = ["kept", "used", "free"];
        if names.iter().all(|name| is(name, "True")) {
            for name in ["used", "free"] {
                cluster.api.edit::<ServiceCIDR>("", name, |cidr| {
                    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(cluster.now());
                    cidr.metadata.deletion_timestamp.get_or_insert(now);
                });
            }
        }
        let is_deleted = cluster.api.get::<ServiceCIDR>("", "free").is_none();
        if is_deleted && is("used", "False") {
            cluster.api.remove::<IPAddress>("", "10.1.0.5");
        }
    },
    end: |cluster| {
        let names = cluster
            .api
            .list::<ServiceCIDR>()
            .into_iter()
            .filter_map(|cidr| cidr.metadata.name);
        let names: Vec<_> = names.collect();
        (names == ["kept"]).then(|| condition(cluster, "kept")).flatten()
    },
};

#[tokio::test(start_paused = true)]
async fn marks_ready_and_deletes_unused_service_cidrs() {
    let (end, writes) = STORY.run().await;
    let finalizer = "networking.k8s.io/service-cidr-finalizer";
    assert_eq!(
        end,
        json!(["True", "", "Kubernetes Service CIDR is ready", [finalizer]])
    );
    // A finalizer and a condition for each, one condition more, and two finalizers less.
    assert_eq!(writes, 9);
}

#[tokio::test(start_paused = true)]
async fn reconciles_service_cidrs_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
