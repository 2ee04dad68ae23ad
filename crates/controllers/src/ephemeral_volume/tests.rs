//! Claims that pods bring along, against an API in memory.

use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{PERSISTENT_VOLUME_CLAIMS, PODS},
    testing::{Scenario, TestCluster},
};

fn pod(cluster: &TestCluster, name: &str, volumes: &Value) {
    cluster.put(
        &PODS,
        json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": [], "volumes": volumes}}),
    );
}

fn ephemeral(name: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let template = json!({"metadata": {"labels": {"of": name}}, "spec": spec});
    json!({"name": name, "ephemeral": {"volumeClaimTemplate": template}})
}

/// One pod brings two claims, one brings none, and for one the name is taken. A claim is deleted and made again.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        pod(
            cluster,
            "two",
            &json!([ephemeral("a"), ephemeral("b"), {"name": "c", "emptyDir": {}}]),
        );
        pod(
            cluster,
            "none",
            &json!([{"name": "a", "persistentVolumeClaim": {"claimName": "x"}}]),
        );
        let taken = json!({"metadata": {"name": "late-a", "namespace": "shop"}, "spec": {}});
        cluster.put(&PERSISTENT_VOLUME_CLAIMS, taken);
        pod(cluster, "late", &json!([ephemeral("a")]));
    },
    play: |cluster| {
        let seconds = cluster.now().as_second() - 1_767_225_630;
        let labels = |claim: PersistentVolumeClaim| claim.metadata.labels;
        let taken = cluster.api.get::<PersistentVolumeClaim>("shop", "late-a");
        if seconds >= 10 && taken.is_some_and(|claim| labels(claim).is_none()) {
            cluster.api.remove::<PersistentVolumeClaim>("shop", "late-a");
        }
    },
    end: |cluster| {
        let claims = cluster
            .api
            .list::<PersistentVolumeClaim>()
            .into_iter()
            .map(|claim| {
                let meta = claim.metadata;
                let owner = meta.owner_references.unwrap_or_default().pop();
                let owner = owner.map(|owner| (owner.kind, owner.name, owner.controller));
                json!([
                    meta.name,
                    meta.labels,
                    owner,
                    claim.spec.is_some_and(|spec| spec.resources.is_some())
                ])
            });
        let is_late = cluster.now().as_second() > 1_767_225_630 + 30;
        is_late.then(|| claims.collect())
    },
};

#[tokio::test(start_paused = true)]
async fn a_pod_gets_the_claims_it_brings_along() {
    let (end, writes) = STORY.run().await;
    let claim = |name: &str, pod: &str, volume: &str| json!([name, {"of": volume}, ["Pod", pod, true], true]);
    let want = [
        claim("late-a", "late", "a"),
        claim("two-a", "two", "a"),
        claim("two-b", "two", "b"),
    ];
    assert_eq!(end, json!(want));
    assert_eq!(writes, 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_a_pod_gets_the_claims_it_brings_along() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_somebody_else_is_told_about() {
    let cluster = TestCluster::new();
    (STORY.setup)(&cluster);
    let _running = cluster.start("one", make);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let events = cluster.api.list::<Event>();
    let told = events
        .iter()
        .find(|event| event.reason.as_deref() == Some("FailedBinding"))
        .unwrap();
    let want = "ephemeral volume a: PVC shop/late-a was not created for pod shop/late (pod is not owner)";
    assert_eq!(told.message.as_deref(), Some(want));
    assert_eq!(
        told.source.as_ref().unwrap().component.as_deref(),
        Some("ephemeral_volume")
    );
}
