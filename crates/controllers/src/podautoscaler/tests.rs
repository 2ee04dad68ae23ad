//! Autoscalers, against an API in memory that serves metrics, or does not.

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    core::v1::Event,
};
use kubecontroller::{
    resource::{Resource, ResourceScope},
    testing::eventually,
};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::make;
use crate::{
    resource::{DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS},
    testing::{Scenario, TestCluster},
};

static POD_METRICS: Resource = Resource::new(
    "metrics.k8s.io",
    "v1beta1",
    "pods",
    "PodMetrics",
    ResourceScope::Namespaced,
);

fn deployment(cluster: &TestCluster, replicas: usize) {
    cluster.put(
        &DEPLOYMENTS,
        json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}},
            "status": {"replicas": replicas},
        }),
    );
    for number in 0..replicas {
        pod(cluster, &format!("web-{number}"));
    }
}

fn pod(cluster: &TestCluster, name: &str) {
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"});
    cluster.put(
        &PODS,
        json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "startTime": "2025-12-31T00:00:00Z", "conditions": [ready]},
        }),
    );
}

fn measure(cluster: &TestCluster, name: &str, cpu: &str) {
    cluster.put(
        &POD_METRICS,
        json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
            "timestamp": "2026-01-01T00:00:00Z", "window": "30s", "containers": [{"name": "c", "usage": {"cpu": cpu}}],
        }),
    );
}

fn autoscaler(cluster: &TestCluster, name: &str, spec: &Value) {
    let mut summary = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 10,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
    });
    for (field, value) in spec.as_object().unwrap() {
        summary[field] = value.clone();
    }
    let metadata = json!({"name": name, "namespace": "shop", "generation": 1});
    cluster.put(
        &HORIZONTAL_POD_AUTOSCALERS,
        json!({"metadata": metadata, "spec": summary}),
    );
}

fn status(cluster: &TestCluster, name: &str) -> Option<HorizontalPodAutoscalerStatus> {
    cluster.api.get::<HorizontalPodAutoscaler>("shop", name)?.status
}

fn condition(cluster: &TestCluster, name: &str, kind: &str) -> Option<(String, String, String)> {
    let conditions = status(cluster, name)?.conditions?;
    let condition = conditions.into_iter().find(|condition| condition.type_ == kind)?;
    Some((condition.status, condition.reason?, condition.message?))
}

fn replicas(cluster: &TestCluster) -> Option<i32> {
    cluster.api.get::<Deployment>("shop", "web")?.spec.replicas
}

async fn until(cluster: &TestCluster, name: &str, kind: &str, reason: &str) -> (String, String) {
    let found = eventually(|| {
        let found = condition(cluster, name, kind);
        let found = found.filter(|(_, found, _)| found == reason);
        async move { found }
    });
    let (status, _, message) = found.await;
    (status, message)
}

/// Two pods use twice what they should.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        deployment(cluster, 2);
        measure(cluster, "web-0", "1");
        measure(cluster, "web-1", "1");
        autoscaler(cluster, "h", &json!({}));
    },
    play: |_| {},
    end: |cluster| {
        let status = status(cluster, "h")?;
        let (_, able, _) = condition(cluster, "h", "AbleToScale")?;
        let (_, active, _) = condition(cluster, "h", "ScalingActive")?;
        let is_over = able == "ReadyForNewScale";
        is_over.then(|| {
            json!({
                "replicas": replicas(cluster), "current": status.current_replicas, "desired": status.desired_replicas,
                "generation": status.observed_generation, "active": active, "metrics": status.current_metrics,
            })
        })
    },
};

#[tokio::test(start_paused = true)]
async fn scales_up_to_the_target_utilization() {
    let (end, writes) = STORY.run().await;
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "1"}}});
    assert_eq!(
        end,
        json!({
            "replicas": 4, "current": 4, "desired": 4, "generation": 1, "active": "ValidMetricFound", "metrics": [metric],
        })
    );
    // The scale, what came of it, and that it is enough.
    assert_eq!(writes, 3);
}

#[tokio::test(start_paused = true)]
async fn scales_up_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn reports_missing_metrics() {
    let cluster = TestCluster::new();
    deployment(&cluster, 1);
    autoscaler(&cluster, "h", &json!({}));
    let _running = cluster.start("one", make);
    let (holds, message) = until(&cluster, "h", "ScalingActive", "FailedGetResourceMetric").await;
    assert_eq!(holds, "False");
    assert_eq!(
        message,
        "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource \
         cpu: no metrics returned from resource metrics API"
    );
    let found = status(&cluster, "h").unwrap();
    assert_eq!((found.current_replicas, found.desired_replicas), (Some(1), 0));
    assert_eq!(
        condition(&cluster, "h", "AbleToScale").unwrap().1,
        "SucceededGetScale"
    );
    assert_eq!(condition(&cluster, "h", "ScalingLimited"), None);
    let events = eventually(|| {
        let events = cluster.api.list::<Event>();
        async move { (events.len() >= 2).then_some(events) }
    })
    .await;
    for event in &events {
        let component = event
            .source
            .as_ref()
            .and_then(|source| source.component.as_deref());
        assert_eq!(component, Some("horizontal-pod-autoscaler"));
    }
    let mut reasons: Vec<_> = events.into_iter().filter_map(|event| event.reason).collect();
    reasons.sort();
    assert_eq!(
        reasons,
        ["FailedComputeMetricsReplicas", "FailedGetResourceMetric"]
    );
    // Said once, it is not said again, however often it is found out.
    cluster.api.clear_requests();
    sleep(Duration::from_mins(5)).await;
    let writes = cluster.api.writes();
    assert!(writes.iter().all(|write| write.agent != "one"), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_measurement_does_not_count_as_no_usage() {
    let cluster = TestCluster::new();
    deployment(&cluster, 2);
    measure(&cluster, "web-0", "1");
    measure(&cluster, "web-1", "much");
    autoscaler(&cluster, "h", &json!({}));
    let _running = cluster.start("one", make);
    let (_, message) = until(&cluster, "h", "ScalingActive", "FailedGetResourceMetric").await;
    assert!(
        message.ends_with(
            "unable to fetch metrics from resource metrics API: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ),
        "{message}"
    );
    assert_eq!(replicas(&cluster), Some(2));
}

#[tokio::test(start_paused = true)]
async fn reports_unscalable_targets() {
    let cluster = TestCluster::new();
    deployment(&cluster, 1);
    for (name, reference, expected) in [
        (
            "missing",
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}),
            "deployments.apps \"d\" not found",
        ),
        (
            "unknown",
            json!({"apiVersion": "shop.example/v1", "kind": "Cart", "name": "d"}),
            "no matches for kind \"Cart\" in group \"shop.example\"",
        ),
        (
            "odd",
            json!({"apiVersion": "a/b/c", "kind": "Cart", "name": "d"}),
            "unexpected GroupVersion string: a/b/c",
        ),
    ] {
        autoscaler(&cluster, name, &json!({"scaleTargetRef": reference}));
        let _running = cluster.start("one", make);
        let (holds, message) = until(&cluster, name, "AbleToScale", "FailedGetScale").await;
        assert_eq!(
            (holds.as_str(), message.as_str()),
            (
                "False",
                &*format!("the HPA controller was unable to get the target's current scale: {expected}")
            )
        );
        assert_eq!(status(&cluster, name).unwrap().current_replicas, None);
    }
}

#[tokio::test(start_paused = true)]
async fn enforces_bounds_without_metrics() {
    for (spec, expected, active) in [
        (json!({"minReplicas": 3}), 3, None),
        (json!({"maxReplicas": 1}), 1, None),
    ] {
        let cluster = TestCluster::new();
        deployment(&cluster, 2);
        autoscaler(&cluster, "h", &spec);
        let running = cluster.start("one", make);
        until(&cluster, "h", "AbleToScale", "SucceededRescale").await;
        drop(running);
        assert_eq!(replicas(&cluster), Some(expected), "{spec}");
        assert_eq!(condition(&cluster, "h", "ScalingActive"), active);
        assert_eq!(condition(&cluster, "h", "ScaledToZero").unwrap().0, "False");
    }
    let cluster = TestCluster::new();
    deployment(&cluster, 0);
    autoscaler(&cluster, "h", &json!({}));
    let _running = cluster.start("one", make);
    until(&cluster, "h", "ScalingActive", "ScalingDisabled").await;
    assert_eq!(replicas(&cluster), Some(0));
}

#[tokio::test(start_paused = true)]
async fn rejects_pods_of_two_autoscalers() {
    let cluster = TestCluster::new();
    deployment(&cluster, 2);
    measure(&cluster, "web-0", "1");
    measure(&cluster, "web-1", "1");
    let rules = json!({"behavior": {"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"selectPolicy": "Disabled"}}});
    autoscaler(&cluster, "a", &rules);
    autoscaler(&cluster, "b", &rules);
    let _running = cluster.start("one", make);
    for name in ["a", "b"] {
        let (_, message) = until(&cluster, name, "ScalingActive", "AmbiguousSelector").await;
        assert_eq!(
            message,
            "pods by selector app=web are controlled by more than one HPA (e.g. [shop/a shop/b])"
        );
    }
    assert_eq!(replicas(&cluster), Some(2));
}

#[tokio::test(start_paused = true)]
async fn scales_from_zero_on_external_metrics() {
    static QUEUE: Resource = Resource::new(
        "external.metrics.k8s.io",
        "v1beta1",
        "queue",
        "ExternalMetricValue",
        ResourceScope::Namespaced,
    );
    let cluster = TestCluster::new();
    let waiting = |count: &str| {
        let metadata = json!({"name": "queue", "namespace": "shop"});
        cluster.put(
            &QUEUE,
            json!({"metadata": metadata, "metricName": "queue", "value": count}),
        );
    };
    deployment(&cluster, 1);
    waiting("0");
    let metric = json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "2"}}});
    autoscaler(&cluster, "h", &json!({"minReplicas": 0, "metrics": [metric]}));
    let _running = cluster.start("one", make);
    // What was there at first counts for some minutes.
    until(&cluster, "h", "AbleToScale", "ScaleDownStabilized").await;
    assert_eq!(replicas(&cluster), Some(1));
    sleep(Duration::from_mins(6)).await;
    assert_eq!(replicas(&cluster), Some(0));
    assert_eq!(condition(&cluster, "h", "ScaledToZero").unwrap().0, "True");
    waiting("5");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(replicas(&cluster), Some(3));
    assert_eq!(condition(&cluster, "h", "ScaledToZero").unwrap().0, "False");
    let reason = condition(&cluster, "h", "ScalingActive").unwrap().2;
    assert_eq!(
        reason,
        "the HPA was able to successfully calculate a replica count from external metric queue(nil)"
    );
}

#[tokio::test(start_paused = true)]
async fn failing_metric_blocks_scale_down_only() {
    for (cpu, expected) in [("100m", 2), ("1", 4)] {
        let cluster = TestCluster::new();
        deployment(&cluster, 2);
        measure(&cluster, "web-0", cpu);
        measure(&cluster, "web-1", cpu);
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1"}}});
        autoscaler(&cluster, "h", &json!({"metrics": [cpu, pods]}));
        let _running = cluster.start("one", make);
        sleep(Duration::from_mins(6)).await;
        assert_eq!(replicas(&cluster), Some(expected));
        let (holds, _, message) = condition(&cluster, "h", "ScalingActive").unwrap();
        if expected == 2 {
            assert_eq!(holds, "False");
            assert_eq!(
                message,
                "the HPA was unable to compute the replica count: unable to get metric hits: unable to fetch metrics from \
                 custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
            );
        } else {
            assert_eq!(holds, "True");
        }
    }
}
