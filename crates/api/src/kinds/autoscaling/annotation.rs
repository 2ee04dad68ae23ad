//! Annotations that keep what autoscaling/v1 has no fields for, byte for byte as upstream writes them.
// upstream: pkg/apis/autoscaling/v1/conversion.go Convert_autoscaling_HorizontalPodAutoscaler_To_v1_HorizontalPodAutoscaler

use serde_json::Value;

use crate::{
    go,
    kinds::{go_values, label_selector},
    quantity::Quantity,
    strategy::{Tree, TreeMut},
};

/// Metrics other than CPU utilization.
pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// Current metrics.
pub(super) const STATUSES: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// Conditions.
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// Scaling behavior.
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// All of them, including two obsolete names.
// upstream: pkg/apis/autoscaling/helpers.go DropRoundTripHorizontalPodAutoscalerAnnotations
pub(super) const ROUND_TRIP_ANNOTATIONS: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    STATUSES,
    CONDITIONS,
];

/// A field of a v1 metric, its path in v2, and the JSON that is written if it is absent.
type FieldMapping = (&'static str, &'static str, Option<&'static str>);

/// The metric source types and their fields, in the order they are written.
pub(super) type SourceMappings = &'static [(&'static str, &'static [FieldMapping])];

const NONE: Option<&str> = Some("\"\"");
const ZERO: Option<&str> = Some("\"0\"");
const NO_OBJECT: Option<&str> = Some("{\"kind\":\"\",\"name\":\"\"}");
const NAME: FieldMapping = ("metricName", "metric.name", NONE);

/// Fields of metric specs.
pub(super) const SPEC_SOURCES: SourceMappings = &[
    (
        "object",
        &[
            ("target", "describedObject", NO_OBJECT),
            NAME,
            ("targetValue", "target.value", ZERO),
            ("selector", "metric.selector", None),
            ("averageValue", "target.averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            NAME,
            ("targetAverageValue", "target.averageValue", ZERO),
            ("selector", "metric.selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", NONE),
            ("targetAverageUtilization", "target.averageUtilization", None),
            ("targetAverageValue", "target.averageValue", None),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", NONE),
            ("targetAverageUtilization", "target.averageUtilization", None),
            ("targetAverageValue", "target.averageValue", None),
            ("container", "container", NONE),
        ],
    ),
    (
        "external",
        &[
            NAME,
            ("metricSelector", "metric.selector", None),
            ("targetValue", "target.value", None),
            ("targetAverageValue", "target.averageValue", None),
        ],
    ),
];

/// Fields of metric statuses.
pub(super) const STATUS_SOURCES: SourceMappings = &[
    (
        "object",
        &[
            ("target", "describedObject", NO_OBJECT),
            NAME,
            ("currentValue", "current.value", ZERO),
            ("selector", "metric.selector", None),
            ("averageValue", "current.averageValue", None),
        ],
    ),
    (
        "pods",
        &[
            NAME,
            ("currentAverageValue", "current.averageValue", ZERO),
            ("selector", "metric.selector", None),
        ],
    ),
    (
        "resource",
        &[
            ("name", "name", NONE),
            ("currentAverageUtilization", "current.averageUtilization", None),
            ("currentAverageValue", "current.averageValue", ZERO),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "name", NONE),
            ("currentAverageUtilization", "current.averageUtilization", None),
            ("currentAverageValue", "current.averageValue", ZERO),
            ("container", "container", NONE),
        ],
    ),
    (
        "external",
        &[
            NAME,
            ("metricSelector", "metric.selector", None),
            ("currentValue", "current.value", ZERO),
            ("currentAverageValue", "current.averageValue", None),
        ],
    ),
];

/// A JSON list of items that are JSON.
pub(super) fn json_list(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

/// Parses the items of a list; `None` if the text is no such list.
pub(super) fn parse_list(text: &str, read: impl Fn(&Value) -> Option<Value>) -> Option<Vec<Value>> {
    let list: Value = serde_json::from_str(text).ok()?;
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(read).collect(),
        _ => None,
    }
}

/// A v2 metric in the form of v1.
// upstream: pkg/apis/autoscaling/v1/conversion.go Convert_autoscaling_ObjectMetricSource_To_v1_ObjectMetricSource, Convert_autoscaling_ResourceMetricSource_To_v1_ResourceMetricSource
pub(super) fn to_v1_metric(metric: &Value, sorts: SourceMappings) -> String {
    let mut fields = vec![json_member("type", &go::json_string(metric.text("type")))];
    for (source_type, rows) in sorts {
        let details = metric.at(source_type);
        if details.is_null() {
            continue;
        }
        let members: Vec<_> = rows
            .iter()
            .filter_map(|(name, v2_path, zero)| match details.at_path(v2_path) {
                Value::Null => zero.map(|zero| json_member(name, zero)),
                value if *v2_path == "describedObject" => Some(json_member(name, &reference_json(value))),
                value if *v2_path == "metric.selector" => {
                    Some(json_member(name, &label_selector::to_go_json(value)))
                }
                value => Some(json_member(name, &go::json(value))),
            })
            .collect();
        fields.push(json_member(source_type, &format!("{{{}}}", members.join(","))));
    }
    format!("{{{}}}", fields.join(","))
}

/// A v1 metric of a spec in the form of v2, where its target has a type.
pub(super) fn from_v1_spec_metric(metric: &Value) -> Option<Value> {
    let mut second = from_v1_metric(metric, SPEC_SOURCES)?;
    for (source_type, _) in SPEC_SOURCES {
        if !metric.at(source_type).is_null() {
            let details = second.ensure_object(source_type);
            set_target_type(source_type, details.ensure_object("target"));
        }
    }
    Some(second)
}

/// A v1 metric in the form of v2.
// upstream: pkg/apis/autoscaling/v1/conversion.go Convert_v1_ObjectMetricSource_To_autoscaling_ObjectMetricSource, Convert_v1_ResourceMetricSource_To_autoscaling_ResourceMetricSource
pub(super) fn from_v1_metric(metric: &Value, sorts: SourceMappings) -> Option<Value> {
    metric.as_object()?;
    let mut second = Value::Null;
    second.ensure_object("type");
    second.set("type", metric.text("type"));
    for (source_type, rows) in sorts {
        let first = metric.at(source_type);
        if first.is_null() {
            continue;
        }
        let details = second.ensure_object(source_type);
        for (name, v2_path, zero) in *rows {
            let value = match first.at(name) {
                Value::Null if *zero == ZERO => Value::from("0"),
                Value::Null => continue,
                number @ Value::Number(_) if !v2_path.ends_with("Utilization") => {
                    Value::from(Quantity::from_value(number).ok()?.to_string())
                }
                value => value.clone(),
            };
            match v2_path.split_once('.') {
                Some((part, field)) => details.ensure_object(part).set(field, value),
                None => details.set(v2_path, value),
            }
        }
    }
    Some(second)
}

fn set_target_type(source_type: &str, target: &mut Value) {
    let averaged = match source_type {
        "object" => target.has("averageValue"),
        "external" => !target.has("value"),
        _ => !target.has("averageUtilization"),
    };
    // v1 cannot omit the value of an object metric; zero means absent.
    let zero = Quantity::from_value(target.at("value")).is_ok_and(|value| value.is_zero());
    if source_type == "object" && averaged && zero {
        target.remove("value");
    }
    let kind = match (averaged, source_type) {
        (true, _) => "AverageValue",
        (false, "object" | "external") => "Value",
        (false, _) => "Utilization",
    };
    target.set("type", kind);
}

// upstream: pkg/apis/autoscaling/v1/conversion.go Convert_autoscaling_HorizontalPodAutoscaler_To_v1_HorizontalPodAutoscaler
pub(super) fn behavior_json(behavior: &Value) -> String {
    go_values::internal_json("autoscaling", "HorizontalPodAutoscalerBehavior", behavior)
}

/// Parses a behavior; `None` if it has neither direction.
pub(super) fn parse_behavior(text: &str) -> Option<Value> {
    let parsed: Value = serde_json::from_str(text).ok()?;
    let behavior = with_lower_field_names(&parsed);
    let is_set = behavior.has("scaleUp") || behavior.has("scaleDown");
    is_set.then_some(behavior)
}

/// Lowers the first letter of field names (`ScaleUp` to `scaleUp`), because the annotation has Go names, and drops nulls.
fn with_lower_field_names(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let mut name = name.clone();
                if let Some(first) = name.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                (name, with_lower_field_names(value))
            })
            .collect(),
        Value::Array(items) => items.iter().map(with_lower_field_names).collect(),
        value => value.clone(),
    }
}

pub(super) fn condition_json(condition: &Value) -> String {
    let names = [
        "type",
        "status",
        "lastTransitionTime",
        "reason",
        "message",
        "observedGeneration",
    ];
    let members: Vec<_> = names
        .iter()
        .filter(|name| condition.has(name) || **name == "lastTransitionTime")
        .map(|name| json_member(name, &go::json(condition.at(name))))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn reference_json(object: &Value) -> String {
    let members: Vec<_> = ["kind", "name", "apiVersion"]
        .iter()
        .filter(|name| object.has(name))
        .map(|name| json_member(name, &go::json(object.at(name))))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn json_member(name: &str, value: &str) -> String {
    format!("\"{name}\":{value}")
}
