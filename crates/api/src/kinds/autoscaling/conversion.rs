//! The two versions of horizontal pod autoscalers, which are one stored thing.
//!
//! The first version knows one metric, the share of the CPU. What it cannot say stands in annotations, so that nothing
//! is lost on the way there and back: metrics, what was measured, conditions, behavior.

use serde_json::{Map, Value, json};

use super::{
    annotation::{self, BEHAVIOR, CONDITIONS, METRICS, SPEC, STATUS, STATUSES},
    horizontal_pod_autoscaler::{DEFAULT_CPU, cpu},
};
use crate::{
    kinds::builtin,
    rules::{Tree, TreeMut},
};

/// An autoscaler of the first version as one of the second.
pub fn to_v2(first: &Value) -> Value {
    let mut second = with_parts(first, "autoscaling/v2");
    let spec = first.at("spec");
    let status = first.at("status");
    let annotations = first.at("metadata").entries("annotations");
    let kept = |name: &str| annotations.get(name).and_then(Value::as_str);

    let into = second.make("spec");
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        into.copy_from(name, spec);
    }
    let own = spec.int("targetCPUUtilizationPercentage").map(cpu);
    let mut metrics = kept(METRICS)
        .and_then(|text| annotation::read_list(text, |one| annotation::from_first(one, SPEC, true)))
        .unwrap_or_default();
    metrics.extend(own);
    if metrics.is_empty() {
        metrics.push(cpu(DEFAULT_CPU));
    }
    into.set("metrics", metrics);
    if let Some(behavior) = kept(BEHAVIOR).and_then(annotation::read_behavior) {
        into.set("behavior", behavior);
    }

    let into = second.make("status");
    for name in [
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
    ] {
        into.copy_from(name, status);
    }
    let measured = kept(STATUSES)
        .and_then(|text| annotation::read_list(text, |one| annotation::from_first(one, STATUS, false)))
        .or_else(|| {
            let share = status.int("currentCPUUtilizationPercentage")?;
            let current = json!({"averageUtilization": share});
            Some(vec![
                json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}),
            ])
        });
    if let Some(measured) = measured {
        into.set("currentMetrics", measured);
    }
    if let Some(conditions) =
        kept(CONDITIONS).and_then(|text| annotation::read_list(text, |one| Some(one.clone())))
    {
        into.set("conditions", conditions);
    }
    normal(second, "v2")
}

/// An autoscaler of the second version as one of the first.
pub fn to_v1(second: &Value) -> Value {
    let mut first = with_parts(second, "autoscaling/v1");
    let spec = second.at("spec");
    let status = second.at("status");

    let into = first.make("spec");
    for name in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        into.copy_from(name, spec);
    }
    let shares = spec.items("metrics").iter().find_map(cpu_share);
    if let Some(share) = shares {
        into.set("targetCPUUtilizationPercentage", share);
    }

    let into = first.make("status");
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
        .filter(|one| cpu_share(one).is_none())
        .collect();
    let mut annotations = Map::new();
    let mut keep = |name: &str, text: String| drop(annotations.insert(name.to_owned(), text.into()));
    if !others.is_empty() {
        let texts = others.into_iter().map(|one| annotation::to_first(one, SPEC));
        keep(METRICS, annotation::list(texts));
    }
    if !measured.is_empty() {
        let texts = measured.iter().map(|one| annotation::to_first(one, STATUS));
        keep(STATUSES, annotation::list(texts));
    }
    if spec.has("behavior") {
        keep(BEHAVIOR, annotation::behavior(spec.at("behavior")));
    }
    let conditions = status.items("conditions");
    if !conditions.is_empty() {
        keep(
            CONDITIONS,
            annotation::list(conditions.iter().map(annotation::condition)),
        );
    }
    if !annotations.is_empty() {
        let into = first.make("metadata").make("annotations");
        for (name, text) in annotations {
            into.set(&name, text);
        }
    }
    normal(first, "v1")
}

/// Kind, version and metadata, without the annotations that stand for what the other version says.
fn with_parts(object: &Value, version: &str) -> Value {
    let mut metadata = object.at("metadata").clone();
    if let Some(annotations) = metadata.at_mut("annotations") {
        for name in annotation::ALL {
            annotations.remove(name);
        }
        if annotations.as_object().is_some_and(Map::is_empty) {
            metadata.remove("annotations");
        }
    }
    json!({"kind": "HorizontalPodAutoscaler", "apiVersion": version, "metadata": metadata})
}

fn normal(object: Value, version: &str) -> Value {
    let kind = builtin()
        .kind("autoscaling", version, "HorizontalPodAutoscaler")
        .expect("both versions are built in");
    match kind.ty.normalize(&object) {
        Ok(decoded) => decoded.value,
        // What stood in annotations need not fit; then it stays as it is, and the rules tell.
        Err(_) => object,
    }
}

fn cpu_resource(metric: &Value) -> Option<&Value> {
    let resource = metric.at("resource");
    (metric.text("type") == "Resource" && resource.text("name") == "cpu").then_some(resource)
}

fn cpu_share(metric: &Value) -> Option<i64> {
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
                    cpu(50),
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
    fn the_first_version_keeps_in_annotations_what_it_cannot_say() {
        let first = to_v1(&second());
        assert_eq!(first.at("spec").int("targetCPUUtilizationPercentage"), Some(50));
        assert_eq!(first.at("status").int("currentCPUUtilizationPercentage"), Some(7));
        assert_eq!(
            first.at("metadata").at("annotations"),
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
    fn nothing_is_lost_on_the_way_there_and_back() {
        assert_eq!(to_v2(&to_v1(&second())), normal(second(), "v2"));
        let object = json!({"kind": "Service", "name": "s"});
        let metric = |target: Value| json!({"metric": {"name": "m"}, "target": target});
        let mut described = metric(json!({"type": "AverageValue", "averageValue": "1"}));
        described.set("describedObject", object);
        let contained = json!({"type": "AverageValue", "averageValue": "2"});
        let mut all = second();
        all.make("spec").set(
            "metrics",
            vec![
                json!({"type": "Object", "object": described}),
                json!({"type": "External", "external": metric(json!({"type": "Value", "value": "3"}))}),
                json!({"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c", "target": contained}}),
                cpu(50),
            ],
        );
        assert_eq!(to_v2(&to_v1(&all)), normal(all, "v2"));
    }

    #[test]
    fn the_first_version_alone_aims_at_a_share_of_the_cpu() {
        let bare = json!({"metadata": {"name": "x"}, "spec": {"maxReplicas": 2}});
        assert_eq!(to_v2(&bare).at("spec").items("metrics"), [cpu(80)]);
        let said = json!({"spec": {"maxReplicas": 2, "targetCPUUtilizationPercentage": 30}});
        assert_eq!(to_v2(&said).at("spec").items("metrics"), [cpu(30)]);
        let broken = json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "["}}, "spec": {}});
        assert_eq!(to_v2(&broken).at("spec").items("metrics"), [cpu(80)]);
        assert_eq!(to_v2(&broken).at("metadata"), &json!({}));
    }
}
