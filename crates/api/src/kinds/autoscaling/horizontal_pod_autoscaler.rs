//! HorizontalPodAutoscaler: scales a workload on metrics. Validation works on autoscaling/v2.

use serde_json::{Value, json};

use super::metric;
use crate::{
    apply::managed::ResetFields,
    field::{Error, Path},
    kinds::{counts, reset_fields},
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct HorizontalPodAutoscaler;

/// CPU utilization target if the client gives no metric.
// upstream: pkg/apis/autoscaling/v2/defaults.go SetDefaults_HorizontalPodAutoscaler
pub(super) const DEFAULT_CPU_UTILIZATION: i64 = 80;

const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_STABILIZATION_WINDOW_SECONDS: i64 = 3600;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Reference", "spec.scaleTargetRef"),
    Column::field("Targets", "spec.metrics"),
    Column::field("MinPods", "spec.minReplicas"),
    Column::field("MaxPods", "spec.maxReplicas"),
    Column::field("Replicas", "status.currentReplicas"),
    Column::age(),
];

/// The apiVersions that a reference may have.
// upstream: pkg/apis/autoscaling/validation/validation.go CrossVersionObjectReferenceValidationOptions
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiVersions {
    /// With a group.
    GroupResource,
    /// With or without a group, or empty.
    Any,
    /// Any: it is unchanged.
    Unchecked,
}

// upstream: pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go autoscalerStrategy
impl RestStrategy for HorizontalPodAutoscaler {
    // upstream: pkg/apis/autoscaling/v2/defaults.go SetDefaults_HorizontalPodAutoscaler
    fn set_defaults(&self, object: &mut Value) {
        let first = object.text("apiVersion") == "autoscaling/v1";
        let spec = object.ensure_object("spec");
        spec.set_default("minReplicas", 1);
        if first {
            return;
        }
        if spec.items("metrics").is_empty() {
            spec.set("metrics", vec![cpu_metric(DEFAULT_CPU_UTILIZATION)]);
        }
        if spec.has("behavior") {
            let behavior = spec.ensure_object("behavior");
            let rules = behavior.ensure_object("scaleUp");
            rules.set_default("stabilizationWindowSeconds", 0);
            rules.set_default("selectPolicy", "Max");
            let policies = vec![scaling_policy("Pods", 4), scaling_policy("Percent", 100)];
            rules.set_default("policies", policies);
            let rules = behavior.ensure_object("scaleDown");
            rules.set_default("selectPolicy", "Max");
            rules.set_default("policies", vec![scaling_policy("Percent", 100)]);
        }
    }

    // upstream: pkg/apis/autoscaling/validation/validation.go ValidateHorizontalPodAutoscaler
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        validate_autoscaler_spec(spec, target_versions(spec), ApiVersions::Any, errors);
    }

    // upstream: pkg/apis/autoscaling/validation/validation.go ValidateHorizontalPodAutoscalerUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = new.at("spec");
        let before = old.at("spec");
        let target = spec.at("scaleTargetRef");
        let target_before = before.at("scaleTargetRef");
        let same = ["apiVersion", "kind"]
            .iter()
            .all(|name| target.text(name) == target_before.text(name));
        let target = if same {
            ApiVersions::Unchecked
        } else {
            target_versions(spec)
        };
        let metrics = if before.items("metrics").iter().any(metric::has_bad_version) {
            ApiVersions::Unchecked
        } else {
            ApiVersions::Any
        };
        validate_autoscaler_spec(spec, target, metrics, errors);
    }

    // upstream: pkg/apis/autoscaling/validation/validation.go ValidateHorizontalPodAutoscalerStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = new.at("status");
        let at = Path::new("status");
        let conditions = at.child("conditions");
        for (index, condition) in status.items("conditions").iter().enumerate() {
            counts::validate_nonnegative_fields(
                condition,
                &["observedGeneration"],
                &conditions.index(index),
                errors,
            );
        }
        counts::validate_nonnegative_fields(status, &["currentReplicas", "desiredReplicas"], &at, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printHorizontalPodAutoscaler
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let target = spec.at("scaleTargetRef");
        let min = spec.int("minReplicas");
        let cells = [
            json!(format!("{}/{}", target.text("kind"), target.text("name"))),
            json!(metric::format_hpa_metrics(
                spec.items("metrics"),
                status.items("currentMetrics")
            )),
            json!(min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string())),
            json!(spec.int_or_zero("maxReplicas")),
            json!(status.int_or_zero("currentReplicas")),
        ];
        named_row(object, now, cells)
    }
}

/// A metric with a CPU utilization target.
pub(super) fn cpu_metric(share: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": share});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn scaling_policy(kind: &str, value: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

fn target_versions(spec: &Value) -> ApiVersions {
    match spec.at("scaleTargetRef").text("kind") {
        // ReplicationController is the only scalable kind of the core group.
        "ReplicationController" => ApiVersions::Any,
        _ => ApiVersions::GroupResource,
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateHorizontalPodAutoscalerSpec
fn validate_autoscaler_spec(spec: &Value, target: ApiVersions, metrics: ApiVersions, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let min = spec.int("minReplicas");
    let max = spec.int_or_zero("maxReplicas");
    if min.is_some_and(|min| max < min) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(Error::invalid(&at.child("maxReplicas"), max, detail));
    }
    validate_cross_version_object_reference(
        spec.at("scaleTargetRef"),
        target,
        &at.child("scaleTargetRef"),
        errors,
    );
    let field_path = at.child("metrics");
    for (index, one) in spec.items("metrics").iter().enumerate() {
        metric::validate_metric_spec(one, metrics, &field_path.index(index), errors);
    }
    let measured_outside = |one: &Value| matches!(one.text("type"), "Object" | "External");
    if min == Some(0) && !spec.items("metrics").iter().any(measured_outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(&field_path, detail));
    }
    let behavior = spec.at("behavior");
    let field_path = at.child("behavior");
    for name in ["scaleUp", "scaleDown"] {
        if behavior.has(name) {
            validate_scaling_rules(behavior.at(name), &field_path.child(name), errors);
        }
    }
    counts::validate_nonnegative_fields(spec, &["minReplicas"], &at, errors);
    match max {
        0 => errors.push(Error::required(&at.child("maxReplicas"), "")),
        1.. => {}
        _ => errors.push(Error::invalid(
            &at.child("maxReplicas"),
            max,
            "must be greater than or equal to 1",
        )),
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go ValidateCrossVersionObjectReference
pub(super) fn validate_cross_version_object_reference(
    reference: &Value,
    versions: ApiVersions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for name in ["kind", "name"] {
        let field_path = at.child(name);
        match reference.text(name) {
            "" => errors.push(Error::required(&field_path, "")),
            text => errors.extend(
                name::validate_path_segment_name(text)
                    .into_iter()
                    .map(|msg| Error::invalid(&field_path, text, msg)),
            ),
        }
    }
    let version = reference.text("apiVersion");
    if let Some(msg) = invalid_api_version(version, versions) {
        errors.push(Error::invalid(&at.child("apiVersion"), version, msg));
    }
}

/// Why the apiVersion of a reference is invalid.
// upstream: pkg/apis/autoscaling/validation/validation.go ValidateAPIVersion
pub(super) fn invalid_api_version(version: &str, versions: ApiVersions) -> Option<String> {
    if versions == ApiVersions::Unchecked {
        return None;
    }
    if version != "/" && version.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    let grouped = version
        .split_once('/')
        .is_some_and(|(group, _)| !group.is_empty());
    (versions == ApiVersions::GroupResource && !grouped)
        .then(|| "apiVersion must specify API group".to_owned())
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateScalingRules
fn validate_scaling_rules(rules: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(window @ ..0) => {
            errors.push(Error::invalid(
                &field_path,
                window,
                "must be greater than or equal to zero",
            ));
        }
        Some(window) if window > MAX_STABILIZATION_WINDOW_SECONDS => {
            let detail = format!("must be less than or equal to {MAX_STABILIZATION_WINDOW_SECONDS}");
            errors.push(Error::invalid(&field_path, window, detail));
        }
        _ => {}
    }
    let supported = ["Disabled", "Max", "Min"];
    if let Some(policy) = rules.at("selectPolicy").as_str()
        && !supported.contains(&policy)
    {
        errors.push(Error::not_supported(&at.child("selectPolicy"), policy, supported));
    }
    let policies = rules.items("policies");
    let field_path = at.child("policies");
    if policies.is_empty() {
        errors.push(Error::required(&field_path, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_scaling_policy(policy, &field_path.index(index), errors);
    }
    if rules.has("tolerance") {
        metric::validate_not_negative(rules.at("tolerance"), &at.child("tolerance"), errors);
    }
}

// upstream: pkg/apis/autoscaling/validation/validation.go validateScalingPolicy
fn validate_scaling_policy(policy: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let kind = policy.text("type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.push(Error::not_supported(&at.child("type"), kind, ["Percent", "Pods"]));
    }
    for name in ["value", "periodSeconds"] {
        let number = policy.int_or_zero(name);
        if number <= 0 {
            errors.push(Error::invalid(
                &at.child(name),
                number,
                "must be greater than zero",
            ));
        }
    }
    let period = policy.int_or_zero("periodSeconds");
    if period > MAX_PERIOD_SECONDS {
        let detail = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
        errors.push(Error::invalid(&at.child("periodSeconds"), period, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = ErrorList::new();
        let target = if old.is_some() {
            ApiVersions::Unchecked
        } else {
            target_versions(spec)
        };
        validate_autoscaler_spec(spec, target, ApiVersions::Any, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scaling_to_zero_requires_object_or_external_metrics() {
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let spec = json!({"scaleTargetRef": target, "minReplicas": 0, "maxReplicas": 1, "metrics": [cpu_metric(80)]});
        assert_eq!(
            messages(&spec, None),
            [
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero \
                 replicas"
            ]
        );
    }

    #[test]
    fn tolerates_targets_without_group_if_unchanged() {
        let spec = |kind: &str| json!({"scaleTargetRef": {"kind": kind, "name": "d"}, "maxReplicas": 1, "metrics": [cpu_metric(80)]});
        let msg = "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group";
        assert_eq!(messages(&spec("Deployment"), None), [msg]);
        assert_eq!(messages(&spec("ReplicationController"), None), [""; 0]);
        assert_eq!(messages(&spec("Deployment"), Some(&spec("Deployment"))), [""; 0]);
    }

    #[test]
    fn v2_defaults_the_behavior() {
        let defaulted = |version: &str| {
            let mut object = json!({"spec": {"maxReplicas": 2, "behavior": {"scaleUp": {"policies": []}}}});
            object.set("apiVersion", version);
            HorizontalPodAutoscaler.set_defaults(&mut object);
            object.at("spec").clone()
        };
        let v2 = defaulted("autoscaling/v2");
        assert_eq!(v2.items("metrics"), [cpu_metric(80)]);
        assert_eq!(v2.at_path("behavior.scaleUp").at("policies"), &json!([]));
        assert_eq!(
            v2.at_path("behavior.scaleDown"),
            &json!({"selectPolicy": "Max", "policies": [scaling_policy("Percent", 100)]})
        );
        let first = defaulted("autoscaling/v1");
        assert_eq!((first.int("minReplicas"), first.has("metrics")), (Some(1), false));
    }
}
