//! What the first version of autoscalers keeps in annotations: texts in the form that servers have always written.

use serde_json::Value;

use crate::{
    go,
    kinds::{go_values, label_selector},
    quantity::Quantity,
    rules::{Tree, TreeMut},
};

/// Metrics other than the share of the CPU.
pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// What was measured.
pub(super) const STATUSES: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The conditions.
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// The behavior.
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// All of them, and two that were used for a while.
pub(super) const ALL: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    STATUSES,
    CONDITIONS,
];

/// A field of a metric in the first version, its way in the second, and what is written if it is not there.
type Row = (&'static str, &'static str, Option<&'static str>);

/// The details of the sorts of metrics, in the order they are written.
pub(super) type Sorts = &'static [(&'static str, &'static [Row])];

const NONE: Option<&str> = Some("\"\"");
const ZERO: Option<&str> = Some("\"0\"");
const NO_OBJECT: Option<&str> = Some("{\"kind\":\"\",\"name\":\"\"}");
const NAME: Row = ("metricName", "metric.name", NONE);

/// What metrics aim at.
pub(super) const SPEC: Sorts = &[
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

/// What was measured.
pub(super) const STATUS: Sorts = &[
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

/// A list of texts that are JSON.
pub(super) fn list(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

/// The items of a list, each read; `None` if it is no such list.
pub(super) fn read_list(text: &str, read: impl Fn(&Value) -> Option<Value>) -> Option<Vec<Value>> {
    let list: Value = serde_json::from_str(text).ok()?;
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items.iter().map(read).collect(),
        _ => None,
    }
}

/// A metric as the first version writes it.
pub(super) fn to_first(metric: &Value, sorts: Sorts) -> String {
    let mut fields = vec![member("type", &go::json_string(metric.text("type")))];
    for (sort, rows) in sorts {
        let details = metric.at(sort);
        if details.is_null() {
            continue;
        }
        let members: Vec<_> = rows
            .iter()
            .filter_map(|(name, way, zero)| match details.way(way) {
                Value::Null => zero.map(|zero| member(name, zero)),
                value if *way == "describedObject" => Some(member(name, &reference(value))),
                value if *way == "metric.selector" => Some(member(name, &label_selector::to_go_json(value))),
                value => Some(member(name, &go::json(value))),
            })
            .collect();
        fields.push(member(sort, &format!("{{{}}}", members.join(","))));
    }
    format!("{{{}}}", fields.join(","))
}

/// A metric as the second version has it. Only what is aimed at tells how it is aimed at.
pub(super) fn from_first(metric: &Value, sorts: Sorts, aimed: bool) -> Option<Value> {
    metric.as_object()?;
    let mut second = Value::Null;
    second.make("type");
    second.set("type", metric.text("type"));
    for (sort, rows) in sorts {
        let first = metric.at(sort);
        if first.is_null() {
            continue;
        }
        let details = second.make(sort);
        for (name, way, zero) in *rows {
            let value = match first.at(name) {
                Value::Null if *zero == ZERO => Value::from("0"),
                Value::Null => continue,
                number @ Value::Number(_) if !way.ends_with("Utilization") => {
                    Value::from(Quantity::from_value(number).ok()?.to_string())
                }
                value => value.clone(),
            };
            match way.split_once('.') {
                Some((part, field)) => details.make(part).set(field, value),
                None => details.set(way, value),
            }
        }
        if aimed {
            aim(sort, details.make("target"));
        }
    }
    Some(second)
}

fn aim(sort: &str, target: &mut Value) {
    let averaged = match sort {
        "object" => target.has("averageValue"),
        "external" => !target.has("value"),
        _ => !target.has("averageUtilization"),
    };
    // The first version cannot leave the value of an object out; zero stands for that.
    let zero = Quantity::from_value(target.at("value")).is_ok_and(|value| value.is_zero());
    if sort == "object" && averaged && zero {
        target.remove("value");
    }
    let kind = match (averaged, sort) {
        (true, _) => "AverageValue",
        (false, "object" | "external") => "Value",
        (false, _) => "Utilization",
    };
    target.set("type", kind);
}

/// The behavior, as it is kept.
pub(super) fn behavior(behavior: &Value) -> String {
    go_values::internal_json("autoscaling", "HorizontalPodAutoscalerBehavior", behavior)
}

/// A behavior that was kept; `None` if it says nothing.
pub(super) fn read_behavior(text: &str) -> Option<Value> {
    let kept: Value = serde_json::from_str(text).ok()?;
    let behavior = lowered(&kept);
    let says = behavior.has("scaleUp") || behavior.has("scaleDown");
    says.then_some(behavior)
}

/// The same with the names objects have: `ScaleUp` is `scaleUp`. What is `null` is left out.
fn lowered(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let mut name = name.clone();
                if let Some(first) = name.get_mut(..1) {
                    first.make_ascii_lowercase();
                }
                (name, lowered(value))
            })
            .collect(),
        Value::Array(items) => items.iter().map(lowered).collect(),
        value => value.clone(),
    }
}

/// A condition, as it is kept.
pub(super) fn condition(condition: &Value) -> String {
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
        .map(|name| member(name, &go::json(condition.at(name))))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn reference(object: &Value) -> String {
    let members: Vec<_> = ["kind", "name", "apiVersion"]
        .iter()
        .filter(|name| object.has(name))
        .map(|name| member(name, &go::json(object.at(name))))
        .collect();
    format!("{{{}}}", members.join(","))
}

fn member(name: &str, value: &str) -> String {
    format!("\"{name}\":{value}")
}
