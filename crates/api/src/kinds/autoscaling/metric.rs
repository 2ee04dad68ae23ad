//! What autoscalers measure: resources of pods, metrics of pods and of other objects, metrics from outside.

use std::cmp::Ordering;

use serde_json::Value;

use super::horizontal_pod_autoscaler::{Versions, reference, version_fault};
use crate::{
    field::{Error, Path},
    go,
    kinds::{core::pod, counts::NOT_NEGATIVE},
    name,
    quantity::Quantity,
    rules::{Errors, Tree},
};

/// The sorts of metrics, and the field that holds the details of each, in the order they are judged.
const SORTS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SORTED: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// What a table shows of so many metrics; of more, only that there are more.
const SHOWN: usize = 2;

/// Whether the version of the object that a metric describes would be refused.
pub(super) fn has_bad_version(metric: &Value) -> bool {
    let version = metric.at("object").at("describedObject").text("apiVersion");
    metric.text("type") == "Object" && version_fault(version, Versions::Any).is_some()
}

/// What is wrong with a metric.
pub(super) fn validate(metric: &Value, versions: Versions, at: &Path<'_>, errors: &mut Errors) {
    let sort = metric.text("type");
    let field_path = at.child("type");
    if sort.is_empty() {
        errors.push(Error::required(&field_path, "must specify a metric source type"));
    }
    let expected = SORTS.iter().find(|(name, _)| *name == sort);
    if expected.is_none() {
        errors.push(Error::not_supported(&field_path, sort, SORTED));
    }
    let mut present = SORTS
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.has(field));
    let first = present.next();
    if let Some(field) = first {
        source(field, metric.at(field), versions, &at.child(field), errors);
    }
    if let Some((_, field)) = expected
        && !metric.has(field)
    {
        let detail = "must populate information for the given metric source";
        errors.push(Error::required(&at.child(field), detail));
    }
    if present.next().is_some() {
        let detail = "must populate the given metric source only";
        let expected = expected.map(|(_, field)| *field);
        let present = SORTS
            .iter()
            .map(|(_, field)| *field)
            .filter(|field| metric.has(field));
        for field in present.filter(|field| Some(*field) != expected) {
            errors.push(Error::forbidden(&at.child(field), detail));
        }
    }
}

fn source(field: &str, source: &Value, versions: Versions, at: &Path<'_>, errors: &mut Errors) {
    match field {
        "object" => {
            let described = source.at("describedObject");
            reference(described, versions, &at.child("describedObject"), errors);
            identifier(source, at, errors);
        }
        "external" | "pods" => identifier(source, at, errors),
        "resource" if source.text("name").is_empty() => {
            errors.push(Error::required(&at.child("name"), "must specify a resource name"));
        }
        "containerResource" => container_resource(source, at, errors),
        _ => {}
    }
    let aim = source.at("target");
    let field_path = at.child("target");
    target(aim, &field_path, errors);
    let value = aim.has("value");
    let average = aim.has("averageValue");
    let share = aim.has("averageUtilization");
    let average_at = field_path.child("averageValue");
    match field {
        "object" if !value && !average => {
            let detail = "must set either a target value or averageValue";
            errors.push(Error::required(&average_at, detail));
        }
        "external" if !value && !average => {
            let detail = "must set either a target value for metric or a per-pod target";
            errors.push(Error::required(&average_at, detail));
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(Error::forbidden(&field_path.child("value"), detail));
        }
        "pods" if !average => {
            let detail = "must specify a positive target averageValue";
            errors.push(Error::required(&average_at, detail));
        }
        "resource" | "containerResource" if !share && !average => {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(Error::required(&field_path.child("averageUtilization"), detail));
        }
        "resource" | "containerResource" if share && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(Error::forbidden(&average_at, detail));
        }
        _ => {}
    }
}

fn container_resource(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    match source.text("name") {
        "" => errors.push(Error::required(&at.child("name"), "must specify a resource name")),
        resource => pod::resources::validate_container_name(resource, &at.child("name"), errors),
    }
    let field_path = at.child("container");
    match source.text("container") {
        "" => errors.push(Error::required(&field_path, "must specify a container")),
        container => errors.extend(
            name::dns1123_label(container)
                .into_iter()
                .map(|msg| Error::invalid(&field_path, container, msg)),
        ),
    }
}

fn identifier(source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("metric");
    let field_path = field_path.child("name");
    match source.at("metric").text("name") {
        "" => errors.push(Error::required(&field_path, "must specify a metric name")),
        metric => errors.extend(
            name::path_segment_name(metric)
                .into_iter()
                .map(|msg| Error::invalid(&field_path, metric, msg)),
        ),
    }
}

fn target(target: &Value, at: &Path<'_>, errors: &mut Errors) {
    let sort = target.text("type");
    let field_path = at.child("type");
    if sort.is_empty() {
        errors.push(Error::required(&field_path, "must specify a metric target type"));
    }
    if !matches!(sort, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&field_path, sort, detail));
    }
    for name in ["value", "averageValue"] {
        if target.has(name) && sign(target.at(name)) != Ordering::Greater {
            errors.push(Error::invalid(
                &at.child(name),
                target.at(name),
                "must be positive",
            ));
        }
    }
    if let Some(share) = target.int("averageUtilization").filter(|share| *share < 1) {
        let field_path = at.child("averageUtilization");
        errors.push(Error::invalid(&field_path, share, "must be greater than 0"));
    }
}

/// An amount must not be negative.
pub(super) fn not_negative(amount: &Value, at: &Path<'_>, errors: &mut Errors) {
    if sign(amount) == Ordering::Less {
        errors.push(Error::invalid(at, amount, NOT_NEGATIVE));
    }
}

fn sign(amount: &Value) -> Ordering {
    Quantity::from_value(amount).map_or(Ordering::Equal, |amount| amount.sign())
}

/// Metrics in a table: what is measured, and what is aimed at.
pub(super) fn cell(metrics: &[Value], measured: &[Value]) -> String {
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let texts: Vec<_> = metrics
        .iter()
        .enumerate()
        .take(SHOWN)
        .map(|(index, metric)| one_cell(metric, measured.get(index).unwrap_or(&Value::Null)))
        .collect();
    let texts = texts.join(", ");
    match metrics.len().saturating_sub(SHOWN) {
        0 => texts,
        more => format!("{texts} + {more} more..."),
    }
}

fn one_cell(metric: &Value, measured: &Value) -> String {
    let Some((sort, field)) = SORTS.iter().find(|(name, _)| *name == metric.text("type")) else {
        return "<unknown type>".to_owned();
    };
    let source = metric.at(field);
    let measured = measured.at(field);
    let target = source.at("target");
    let current = measured.at("current");
    let average = target.has("averageValue");
    match *sort {
        "Pods" => {
            let now = current_amount(measured, current.at("averageValue"));
            format!("{now}/{}", amount(target.at("averageValue")))
        }
        "Object" | "External" if average => {
            let now = match current.at("averageValue") {
                Value::Null => "<unknown>".to_owned(),
                value => amount(value),
            };
            format!("{now}/{} (avg)", amount(target.at("averageValue")))
        }
        "Object" | "External" => {
            let now = current_amount(measured, current.at("value"));
            format!("{now}/{}", amount(target.at("value")))
        }
        _ if average => {
            let now = current_amount(measured, current.at("averageValue"));
            let name = source.text("name");
            format!("{name}: {now}/{}", amount(target.at("averageValue")))
        }
        _ => {
            let share = |tree: &Value, none: &str| {
                tree.int("averageUtilization")
                    .map_or_else(|| none.to_owned(), |share| format!("{share}%"))
            };
            let now = share(current, "<unknown>");
            let aim = share(target, "<auto>");
            format!("{}: {now}/{aim}", source.text("name"))
        }
    }
}

fn current_amount(measured: &Value, value: &Value) -> String {
    if measured.is_null() {
        "<unknown>".to_owned()
    } else {
        amount(value)
    }
}

/// An amount that is not there is shown as Go shows a pointer to none.
fn amount(value: &Value) -> String {
    go::plain(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_shows_what_is_measured_and_what_is_aimed_at() {
        let share = |aim: i64| json!({"averageUtilization": aim});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": share(80)}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "10"}}});
        let outside = json!({"type": "External", "external": {"target": {"averageValue": "5"}}});
        let measured = [json!({"type": "Resource", "resource": {"name": "cpu", "current": share(40)}})];
        assert_eq!(cell(&[], &[]), "<none>");
        assert_eq!(
            cell(&[cpu.clone(), outside.clone()], &measured),
            "cpu: 40%/80%, <unknown>/5 (avg)"
        );
        assert_eq!(
            cell(&[pods, cpu, outside], &[]),
            "<unknown>/10, cpu: <unknown>/80% + 1 more..."
        );
    }

    #[test]
    fn a_metric_has_the_details_of_its_sort_alone() {
        let metric = json!({
            "type": "Pods",
            "object": {"describedObject": {"kind": "A", "name": "b"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "0"}},
            "external": {},
        });
        let mut errors = Errors::new();
        validate(&metric, Versions::Any, &Path::new("m"), &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "m.object.target.value: Invalid value: \"0\": must be positive",
                "m.pods: Required value: must populate information for the given metric source",
                "m.object: Forbidden: must populate the given metric source only",
                "m.external: Forbidden: must populate the given metric source only",
            ]
        );
    }
}
