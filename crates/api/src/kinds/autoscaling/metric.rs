//! Metric specs of autoscalers: resources of pods, metrics of pods and of other objects, external metrics.

use std::cmp::Ordering;

use serde_json::Value;

use super::horizontal_pod_autoscaler::{
    ApiVersions, invalid_api_version, validate_cross_version_object_reference,
};
use crate::{
    field::{Error, Path},
    go,
    kinds::{core::pod, counts::NOT_NEGATIVE},
    name,
    quantity::Quantity,
    strategy::{ErrorList, Tree},
};

/// Metric source types and their fields, in validation order.
const METRIC_SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const METRIC_SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Number of metrics that a table shows.
const MAX_TABLE_METRICS: usize = 2;

/// Whether the apiVersion of the described object is invalid.
pub(super) fn has_bad_version(metric: &Value) -> bool {
    let version = metric.at("object").at("describedObject").text("apiVersion");
    metric.text("type") == "Object" && invalid_api_version(version, ApiVersions::Any).is_some()
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateMetricSpec
pub(super) fn validate_metric_spec(
    metric: &Value,
    versions: ApiVersions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let sort = metric.text("type");
    let field_path = at.child("type");
    if sort.is_empty() {
        errors.push(Error::required(&field_path, "must specify a metric source type"));
    }
    let expected = METRIC_SOURCES.iter().find(|(name, _)| *name == sort);
    if expected.is_none() {
        errors.push(Error::not_supported(&field_path, sort, METRIC_SOURCE_TYPES));
    }
    let mut present = METRIC_SOURCES
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.has(field));
    let first = present.next();
    if let Some(field) = first {
        validate_metric_source(field, metric.at(field), versions, &at.child(field), errors);
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
        let present = METRIC_SOURCES
            .iter()
            .map(|(_, field)| *field)
            .filter(|field| metric.has(field));
        for field in present.filter(|field| Some(*field) != expected) {
            errors.push(Error::forbidden(&at.child(field), detail));
        }
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateObjectSource, validateExternalSource, validatePodsSource, validateContainerResourceSource, validateResourceSource
fn validate_metric_source(
    field: &str,
    source: &Value,
    versions: ApiVersions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    match field {
        "object" => {
            let described = source.at("describedObject");
            validate_cross_version_object_reference(
                described,
                versions,
                &at.child("describedObject"),
                errors,
            );
            validate_metric_identifier(source, at, errors);
        }
        "external" | "pods" => validate_metric_identifier(source, at, errors),
        "resource" if source.text("name").is_empty() => {
            errors.push(Error::required(&at.child("name"), "must specify a resource name"));
        }
        "containerResource" => validate_container_resource_source(source, at, errors),
        _ => {}
    }
    let target = source.at("target");
    let field_path = at.child("target");
    validate_metric_target(target, &field_path, errors);
    let value = target.has("value");
    let average = target.has("averageValue");
    let utilization = target.has("averageUtilization");
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
        "resource" | "containerResource" if !utilization && !average => {
            let detail = "must set either a target raw value or a target utilization";
            errors.push(Error::required(&field_path.child("averageUtilization"), detail));
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(Error::forbidden(&average_at, detail));
        }
        _ => {}
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateContainerResourceSource
fn validate_container_resource_source(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match source.text("name") {
        "" => errors.push(Error::required(&at.child("name"), "must specify a resource name")),
        resource => pod::resources::validate_container_resource_name(resource, &at.child("name"), errors),
    }
    let field_path = at.child("container");
    match source.text("container") {
        "" => errors.push(Error::required(&field_path, "must specify a container")),
        container => errors.extend(
            name::validate_dns1123_label(container)
                .into_iter()
                .map(|msg| Error::invalid(&field_path, container, msg)),
        ),
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateMetricIdentifier
fn validate_metric_identifier(source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("metric");
    let field_path = field_path.child("name");
    match source.at("metric").text("name") {
        "" => errors.push(Error::required(&field_path, "must specify a metric name")),
        metric => errors.extend(
            name::validate_path_segment_name(metric)
                .into_iter()
                .map(|msg| Error::invalid(&field_path, metric, msg)),
        ),
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateMetricTarget
fn validate_metric_target(target: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
    if let Some(utilization) = target
        .int("averageUtilization")
        .filter(|utilization| *utilization < 1)
    {
        let field_path = at.child("averageUtilization");
        errors.push(Error::invalid(&field_path, utilization, "must be greater than 0"));
    }
}

pub(super) fn validate_not_negative(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if sign(amount) == Ordering::Less {
        errors.push(Error::invalid(at, amount, NOT_NEGATIVE));
    }
}

fn sign(amount: &Value) -> Ordering {
    Quantity::from_value(amount).map_or(Ordering::Equal, |amount| amount.sign())
}

/// Metrics in a table: `current/target`.
// upstream: pkg/printers/internalversion/printers.go formatHPAMetrics
pub(super) fn format_hpa_metrics(metrics: &[Value], measured: &[Value]) -> String {
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let texts: Vec<_> = metrics
        .iter()
        .enumerate()
        .take(MAX_TABLE_METRICS)
        .map(|(index, metric)| format_hpa_metric(metric, measured.get(index).unwrap_or(&Value::Null)))
        .collect();
    let texts = texts.join(", ");
    match metrics.len().saturating_sub(MAX_TABLE_METRICS) {
        0 => texts,
        more => format!("{texts} + {more} more..."),
    }
}

fn format_hpa_metric(metric: &Value, measured: &Value) -> String {
    let Some((sort, field)) = METRIC_SOURCES
        .iter()
        .find(|(name, _)| *name == metric.text("type"))
    else {
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
            format!("{now}/{}", format_quantity(target.at("averageValue")))
        }
        "Object" | "External" if average => {
            let now = match current.at("averageValue") {
                Value::Null => "<unknown>".to_owned(),
                value => format_quantity(value),
            };
            format!("{now}/{} (avg)", format_quantity(target.at("averageValue")))
        }
        "Object" | "External" => {
            let now = current_amount(measured, current.at("value"));
            format!("{now}/{}", format_quantity(target.at("value")))
        }
        _ if average => {
            let now = current_amount(measured, current.at("averageValue"));
            let name = source.text("name");
            format!("{name}: {now}/{}", format_quantity(target.at("averageValue")))
        }
        _ => {
            let format_utilization = |tree: &Value, none: &str| {
                tree.int("averageUtilization")
                    .map_or_else(|| none.to_owned(), |share| format!("{share}%"))
            };
            let now = format_utilization(current, "<unknown>");
            let target = format_utilization(target, "<auto>");
            format!("{}: {now}/{target}", source.text("name"))
        }
    }
}

fn current_amount(measured: &Value, value: &Value) -> String {
    if measured.is_null() {
        "<unknown>".to_owned()
    } else {
        format_quantity(value)
    }
}

/// An absent quantity prints as Go prints a nil pointer.
fn format_quantity(value: &Value) -> String {
    go::plain(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cell_shows_current_and_target() {
        let share = |target: i64| json!({"averageUtilization": target});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": share(80)}});
        let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "10"}}});
        let outside = json!({"type": "External", "external": {"target": {"averageValue": "5"}}});
        let measured = [json!({"type": "Resource", "resource": {"name": "cpu", "current": share(40)}})];
        assert_eq!(format_hpa_metrics(&[], &[]), "<none>");
        assert_eq!(
            format_hpa_metrics(&[cpu.clone(), outside.clone()], &measured),
            "cpu: 40%/80%, <unknown>/5 (avg)"
        );
        assert_eq!(
            format_hpa_metrics(&[pods, cpu, outside], &[]),
            "<unknown>/10, cpu: <unknown>/80% + 1 more..."
        );
    }

    #[test]
    fn rejects_sources_of_another_type() {
        let metric = json!({
            "type": "Pods",
            "object": {"describedObject": {"kind": "A", "name": "b"}, "metric": {"name": "m"}, "target": {"type": "Value", "value": "0"}},
            "external": {},
        });
        let mut errors = ErrorList::new();
        validate_metric_spec(&metric, ApiVersions::Any, &Path::new("m"), &mut errors);
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
