//! Conversion between autoscaling/v1 and v2. Autoscalers are stored as v2.
//!
//! v1 has only the CPU utilization metric. What it cannot express (metrics, current metrics, conditions, behavior) is kept in
//! annotations, so that a round trip loses nothing.

use serde_json::{Map, Value, json};

use super::{
    annotation::{self, BEHAVIOR, CONDITIONS, METRICS, SPEC_SOURCES, STATUS_SOURCES, STATUSES},
    horizontal_pod_autoscaler::{DEFAULT_CPU_UTILIZATION, cpu_metric},
};
use crate::{
    kinds::builtin,
    strategy::{Tree, TreeMut},
};

/// Converts from v1 to v2.
// upstream: pkg/apis/autoscaling/v1/conversion.go Convert_v1_HorizontalPodAutoscaler_To_autoscaling_HorizontalPodAutoscaler
pub fn to_v2(v1: &Value) -> Value {
    let mut v2 = with_type_and_metadata(v1, "autoscaling/v2");
    let spec = v1.at("spec");
    let status = v1.at("status");
    let annotations = v1.at("metadata").entries("annotations");
    let annotation_text = |name: &str| annotations.get(name).and_then(Value::as_str);

    let into = v2.ensure_object("spec");
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        into.copy_from(name, spec);
    }
    let own = spec.int("targetCPUUtilizationPercentage").map(cpu_metric);
    let mut metrics = annotation_text(METRICS)
        .and_then(|text| annotation::parse_list(text, annotation::from_v1_spec_metric))
        .unwrap_or_default();
    metrics.extend(own);
    if metrics.is_empty() {
        metrics.push(cpu_metric(DEFAULT_CPU_UTILIZATION));
    }
    into.set("metrics", metrics);
    if let Some(behavior) = annotation_text(BEHAVIOR).and_then(annotation::parse_behavior) {
        into.set("behavior", behavior);
    }

    let into = v2.ensure_object("status");
    for name in [
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
    ] {
        into.copy_from(name, status);
    }
    let measured = annotation_text(STATUSES)
        .and_then(|text| annotation::parse_list(text, |one| annotation::from_v1_metric(one, STATUS_SOURCES)))
        .or_else(|| {
            let utilization = status.int("currentCPUUtilizationPercentage")?;
            let current = json!({"averageUtilization": utilization});
            Some(vec![
                json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}),
            ])
        });
    if let Some(measured) = measured {
        into.set("currentMetrics", measured);
    }
    if let Some(conditions) =
        annotation_text(CONDITIONS).and_then(|text| annotation::parse_list(text, |one| Some(one.clone())))
    {
        into.set("conditions", conditions);
    }
    normalize(v2, "v2")
}

/// Converts from v2 to v1.
// upstream: pkg/apis/autoscaling/v1/conversion.go Convert_autoscaling_HorizontalPodAutoscaler_To_v1_HorizontalPodAutoscaler
pub fn to_v1(v2: &Value) -> Value {
    let mut v1 = with_type_and_metadata(v2, "autoscaling/v1");
    let spec = v2.at("spec");
    let status = v2.at("status");

    let into = v1.ensure_object("spec");
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        into.copy_from(name, spec);
    }
    let utilizations = spec.items("metrics").iter().find_map(cpu_utilization);
    if let Some(utilization) = utilizations {
        into.set("targetCPUUtilizationPercentage", utilization);
    }

    let into = v1.ensure_object("status");
    for name in [
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
    ] {
        into.copy_from(name, status);
    }
    let measured = status.items("currentMetrics");
    let current = measured.iter().rev().find_map(|one| {
        let resource = cpu_resource(one)?;
        resource.at("current").int("averageUtilization")
    });
    if let Some(current) = current {
        into.set("currentCPUUtilizationPercentage", current);
    }

    let others: Vec<_> = spec
        .items("metrics")
        .iter()
        .filter(|one| cpu_utilization(one).is_none())
        .collect();
    let mut annotations = Map::new();
    let mut set_annotation =
        |name: &str, text: String| drop(annotations.insert(name.to_owned(), text.into()));
    if !others.is_empty() {
        let texts = others
            .into_iter()
            .map(|one| annotation::to_v1_metric(one, SPEC_SOURCES));
        set_annotation(METRICS, annotation::json_list(texts));
    }
    if !measured.is_empty() {
        let texts = measured
            .iter()
            .map(|one| annotation::to_v1_metric(one, STATUS_SOURCES));
        set_annotation(STATUSES, annotation::json_list(texts));
    }
    if spec.has("behavior") {
        set_annotation(BEHAVIOR, annotation::behavior_json(spec.at("behavior")));
    }
    let conditions = status.items("conditions");
    if !conditions.is_empty() {
        set_annotation(
            CONDITIONS,
            annotation::json_list(conditions.iter().map(annotation::condition_json)),
        );
    }
    if !annotations.is_empty() {
        let into = v1.ensure_object("metadata").ensure_object("annotations");
        for (name, text) in annotations {
            into.set(&name, text);
        }
    }
    normalize(v1, "v1")
}

/// Kind, version and metadata, without the annotations of the other version.
fn with_type_and_metadata(object: &Value, version: &str) -> Value {
    let mut metadata = object.at("metadata").clone();
    if let Some(annotations) = metadata.at_mut("annotations") {
        for name in annotation::ROUND_TRIP_ANNOTATIONS {
            annotations.remove(name);
        }
        if annotations.as_object().is_some_and(Map::is_empty) {
            metadata.remove("annotations");
        }
    }
    json!({"kind": "HorizontalPodAutoscaler", "apiVersion": version, "metadata": metadata})
}

fn normalize(object: Value, version: &str) -> Value {
    let kind = builtin()
        .kind("autoscaling", version, "HorizontalPodAutoscaler")
        .expect("both versions are built in");
    match kind.ty.normalize(&object) {
        Ok(decoded) => decoded.value,
        // Annotations are client input and need not fit the schema; then they stay as they are and validation reports them.
        Err(_) => object,
    }
}

fn cpu_resource(metric: &Value) -> Option<&Value> {
    let resource = metric.at("resource");
    (metric.text("type") == "Resource" && resource.text("name") == "cpu").then_some(resource)
}

fn cpu_utilization(metric: &Value) -> Option<i64> {
    cpu_resource(metric)?.at("target").int("averageUtilization")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second() -> Value {
        json!({
            "kind": "HorizontalPodAutoscaler",
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "x", "annotations": {"a": "b"}},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
                "minReplicas": 1,
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                    cpu_metric(50),
                ],
                "behavior": {"scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}},
            },
            "status": {
                "currentReplicas": 2,
                "desiredReplicas": 2,
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7, "averageValue": "70m"}}},
                ],
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "R"}],
            },
        })
    }

    #[test]
    fn v1_keeps_v2_fields_in_annotations() {
        let v1 = to_v1(&second());
        assert_eq!(v1.at("spec").int("targetCPUUtilizationPercentage"), Some(50));
        assert_eq!(v1.at("status").int("currentCPUUtilizationPercentage"), Some(7));
        assert_eq!(
            v1.at("metadata").at("annotations"),
            &json!({
                "a": "b",
                "autoscaling.alpha.kubernetes.io/metrics":
                    r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"10"}}]"#,
                "autoscaling.alpha.kubernetes.io/current-metrics":
                    r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"70m"}}]"#,
                "autoscaling.alpha.kubernetes.io/behavior":
                    r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#,
                "autoscaling.alpha.kubernetes.io/conditions":
                    r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"R"}]"#,
            })
        );
    }

    #[test]
    fn round_trip_loses_nothing() {
        assert_eq!(to_v2(&to_v1(&second())), normalize(second(), "v2"));
        let object = json!({"kind": "Service", "name": "s"});
        let metric = |target: Value| json!({"metric": {"name": "m"}, "target": target});
        let mut described = metric(json!({"type": "AverageValue", "averageValue": "1"}));
        described.set("describedObject", object);
        let contained = json!({"type": "AverageValue", "averageValue": "2"});
        let mut all = second();
        all.ensure_object("spec").set(
            "metrics",
            vec![
                json!({"type": "Object", "object": described}),
                json!({"type": "External", "external": metric(json!({"type": "Value", "value": "3"}))}),
                json!({"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c", "target": contained}}),
                cpu_metric(50),
            ],
        );
        assert_eq!(to_v2(&to_v1(&all)), normalize(all, "v2"));
    }

    #[test]
    fn v1_target_becomes_a_cpu_metric() {
        let bare = json!({"metadata": {"name": "x"}, "spec": {"maxReplicas": 2}});
        assert_eq!(to_v2(&bare).at("spec").items("metrics"), [cpu_metric(80)]);
        let said = json!({"spec": {"maxReplicas": 2, "targetCPUUtilizationPercentage": 30}});
        assert_eq!(to_v2(&said).at("spec").items("metrics"), [cpu_metric(30)]);
        let broken = json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "["}}, "spec": {}});
        assert_eq!(to_v2(&broken).at("spec").items("metrics"), [cpu_metric(80)]);
        assert_eq!(to_v2(&broken).at("metadata"), &json!({}));
    }
}
