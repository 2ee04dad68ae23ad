//! Jobs that have finished, against an API in memory.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::JOBS,
    testing::{Scenario, TestCluster},
};

fn put(cluster: &TestCluster, name: &str, ttl: Option<i32>, condition: &str) {
    let conditions =
        json!([{"type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    cluster.put(
        &JOBS,
        json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"ttlSecondsAfterFinished": ttl, "template": {"spec": {"containers": []}}},
            "status": {"conditions": conditions},
        }),
    );
}

/// One is deleted at once, one after a minute, one gets more time when it has none left; the others stay.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        put(cluster, "at-once", Some(10), "Complete");
        put(cluster, "soon", Some(90), "Failed");
        put(cluster, "kept", None, "Failed");
        put(cluster, "working", Some(0), "FailureTarget");
        put(cluster, "prolonged", Some(60), "Complete");
    },
    play: |cluster| {
        let jobs = cluster.api.list::<Job>();
        for job in jobs
            .iter()
            .filter(|job| job.metadata.deletion_timestamp.is_some())
        {
            // The garbage collector has nothing else to wait for.
            cluster
                .api
                .remove::<Job>("shop", job.metadata.name.as_deref().unwrap());
        }
        let is_late = cluster.now().as_second() >= 1_767_225_655;
        let prolonged = jobs.iter().any(|job| {
            let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
            ttl == Some(1_000_000)
        });
        if is_late && !prolonged {
            cluster.api.edit::<Job>("shop", "prolonged", |job| {
                job.spec.as_mut().unwrap().ttl_seconds_after_finished = Some(1_000_000);
            });
        }
    },
    end: |cluster| {
        let names = cluster
            .api
            .list::<Job>()
            .into_iter()
            .filter_map(|job| job.metadata.name);
        let names: Vec<Value> = names.map(Value::from).collect();
        let is_late = cluster.now().as_second() > 1_767_225_600 + 120;
        is_late.then(|| names.into())
    },
};

#[tokio::test(start_paused = true)]
async fn deletes_expired_jobs() {
    let (end, writes) = STORY.run().await;
    assert_eq!(end, json!(["kept", "prolonged", "working"]));
    assert_eq!(writes, 2);
}

#[tokio::test(start_paused = true)]
async fn deletes_expired_jobs_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
