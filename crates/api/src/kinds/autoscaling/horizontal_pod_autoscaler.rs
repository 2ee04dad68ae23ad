//! Horizontal pod autoscalers: how many pods there are to be, by what is measured. The rules read version 2.

use serde_json::{Value, json};

use super::metric;
use crate::{
    apply::managed::Reset,
    field::{Error, Path},
    kinds::{counts, reset_fields},
    name,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

/// The rules of horizontal pod autoscalers.
pub(super) struct HorizontalPodAutoscaler;

/// The share of the CPU that is aimed at when nothing is said.
pub(super) const DEFAULT_CPU: i64 = 80;

const MAX_PERIOD: i64 = 1800;
const MAX_WINDOW: i64 = 3600;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("Reference", "spec.scaleTargetRef"),
    Column::field("Targets", "spec.metrics"),
    Column::field("MinPods", "spec.minReplicas"),
    Column::field("MaxPods", "spec.maxReplicas"),
    Column::field("Replicas", "status.currentReplicas"),
    Column::age(),
];

/// Which versions of a referenced kind are taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    /// Those with a group.
    Grouped,
    /// Also those of the core group, and none.
    Any,
    /// Whatever it is: it is the old one.
    Unchecked,
}

impl Rules for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value) {
        let first = object.text("apiVersion") == "autoscaling/v1";
        let spec = object.make("spec");
        spec.fill("minReplicas", 1);
        if first {
            return;
        }
        if spec.items("metrics").is_empty() {
            spec.set("metrics", vec![cpu(DEFAULT_CPU)]);
        }
        if spec.has("behavior") {
            let behavior = spec.make("behavior");
            let rules = behavior.make("scaleUp");
            rules.fill("stabilizationWindowSeconds", 0);
            rules.fill("selectPolicy", "Max");
            let policies = vec![policy("Pods", 4), policy("Percent", 100)];
            rules.fill("policies", policies);
            let rules = behavior.make("scaleDown");
            rules.fill("selectPolicy", "Max");
            rules.fill("policies", vec![policy("Percent", 100)]);
        }
    }

    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = object.at("spec");
        validate(spec, target_versions(spec), Versions::Any, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = new.at("spec");
        let before = old.at("spec");
        let target = spec.at("scaleTargetRef");
        let target_before = before.at("scaleTargetRef");
        let same = ["apiVersion", "kind"]
            .iter()
            .all(|name| target.text(name) == target_before.text(name));
        let target = if same {
            Versions::Unchecked
        } else {
            target_versions(spec)
        };
        let metrics = if before.items("metrics").iter().any(metric::has_bad_version) {
            Versions::Unchecked
        } else {
            Versions::Any
        };
        validate(spec, target, metrics, errors);
    }

    fn validate_status(&self, new: &Value, _: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
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

    fn reset(&self, subresource: &str) -> Option<Reset> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        let status = object.at("status");
        let target = spec.at("scaleTargetRef");
        let least = spec.int("minReplicas");
        let cells = [
            json!(format!("{}/{}", target.text("kind"), target.text("name"))),
            json!(metric::cell(
                spec.items("metrics"),
                status.items("currentMetrics")
            )),
            json!(least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string())),
            json!(spec.int("maxReplicas").unwrap_or_default()),
            json!(status.int("currentReplicas").unwrap_or_default()),
        ];
        named_row(object, now, cells)
    }
}

/// A metric that aims at a share of the CPU.
pub(super) fn cpu(share: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": share});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn policy(kind: &str, value: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": 15})
}

fn target_versions(spec: &Value) -> Versions {
    match spec.at("scaleTargetRef").text("kind") {
        // The one kind of the core group that can be scaled.
        "ReplicationController" => Versions::Any,
        _ => Versions::Grouped,
    }
}

fn validate(spec: &Value, target: Versions, metrics: Versions, errors: &mut Errors) {
    let at = Path::new("spec");
    let least = spec.int("minReplicas");
    let most = spec.int("maxReplicas").unwrap_or_default();
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(Error::invalid(&at.child("maxReplicas"), most, detail));
    }
    reference(
        spec.at("scaleTargetRef"),
        target,
        &at.child("scaleTargetRef"),
        errors,
    );
    let field_path = at.child("metrics");
    for (index, one) in spec.items("metrics").iter().enumerate() {
        metric::validate(one, metrics, &field_path.index(index), errors);
    }
    let measured_outside = |one: &Value| matches!(one.text("type"), "Object" | "External");
    if least == Some(0) && !spec.items("metrics").iter().any(measured_outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(&field_path, detail));
    }
    let behavior = spec.at("behavior");
    let field_path = at.child("behavior");
    for name in ["scaleUp", "scaleDown"] {
        if behavior.has(name) {
            scaling_rules(behavior.at(name), &field_path.child(name), errors);
        }
    }
    counts::validate_nonnegative_fields(spec, &["minReplicas"], &at, errors);
    match most {
        0 => errors.push(Error::required(&at.child("maxReplicas"), "")),
        1.. => {}
        _ => errors.push(Error::invalid(
            &at.child("maxReplicas"),
            most,
            "must be greater than or equal to 1",
        )),
    }
}

/// What is wrong with a reference to an object of any version.
pub(super) fn reference(reference: &Value, versions: Versions, at: &Path<'_>, errors: &mut Errors) {
    for name in ["kind", "name"] {
        let field_path = at.child(name);
        match reference.text(name) {
            "" => errors.push(Error::required(&field_path, "")),
            text => errors.extend(
                name::path_segment_name(text)
                    .into_iter()
                    .map(|msg| Error::invalid(&field_path, text, msg)),
            ),
        }
    }
    let version = reference.text("apiVersion");
    if let Some(msg) = version_fault(version, versions) {
        errors.push(Error::invalid(&at.child("apiVersion"), version, msg));
    }
}

/// What is wrong with the version of a referenced kind.
pub(super) fn version_fault(version: &str, versions: Versions) -> Option<String> {
    if versions == Versions::Unchecked {
        return None;
    }
    if version != "/" && version.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    let grouped = version
        .split_once('/')
        .is_some_and(|(group, _)| !group.is_empty());
    (versions == Versions::Grouped && !grouped).then(|| "apiVersion must specify API group".to_owned())
}

fn scaling_rules(rules: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(window @ ..0) => {
            errors.push(Error::invalid(
                &field_path,
                window,
                "must be greater than or equal to zero",
            ));
        }
        Some(window) if window > MAX_WINDOW => {
            let detail = format!("must be less than or equal to {MAX_WINDOW}");
            errors.push(Error::invalid(&field_path, window, detail));
        }
        _ => {}
    }
    let known = ["Disabled", "Max", "Min"];
    if let Some(policy) = rules.at("selectPolicy").as_str()
        && !known.contains(&policy)
    {
        errors.push(Error::not_supported(&at.child("selectPolicy"), policy, known));
    }
    let policies = rules.items("policies");
    let field_path = at.child("policies");
    if policies.is_empty() {
        errors.push(Error::required(&field_path, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        scaling_policy(policy, &field_path.index(index), errors);
    }
    if rules.has("tolerance") {
        metric::not_negative(rules.at("tolerance"), &at.child("tolerance"), errors);
    }
}

fn scaling_policy(policy: &Value, at: &Path<'_>, errors: &mut Errors) {
    let kind = policy.text("type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.push(Error::not_supported(&at.child("type"), kind, ["Percent", "Pods"]));
    }
    for name in ["value", "periodSeconds"] {
        let number = policy.int(name).unwrap_or_default();
        if number <= 0 {
            errors.push(Error::invalid(
                &at.child(name),
                number,
                "must be greater than zero",
            ));
        }
    }
    let period = policy.int("periodSeconds").unwrap_or_default();
    if period > MAX_PERIOD {
        let detail = format!("must be less than or equal to {MAX_PERIOD}");
        errors.push(Error::invalid(&at.child("periodSeconds"), period, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(spec: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::new();
        let target = if old.is_some() {
            Versions::Unchecked
        } else {
            target_versions(spec)
        };
        validate(spec, target, Versions::Any, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scaling_to_nothing_needs_a_metric_that_is_there_without_pods() {
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let spec =
            json!({"scaleTargetRef": target, "minReplicas": 0, "maxReplicas": 1, "metrics": [cpu(80)]});
        assert_eq!(
            messages(&spec, None),
            [
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero \
                 replicas"
            ]
        );
    }

    #[test]
    fn a_target_has_a_group_unless_it_always_had_none() {
        let spec = |kind: &str| json!({"scaleTargetRef": {"kind": kind, "name": "d"}, "maxReplicas": 1, "metrics": [cpu(80)]});
        let msg = "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group";
        assert_eq!(messages(&spec("Deployment"), None), [msg]);
        assert_eq!(messages(&spec("ReplicationController"), None), [""; 0]);
        assert_eq!(messages(&spec("Deployment"), Some(&spec("Deployment"))), [""; 0]);
    }

    #[test]
    fn only_the_second_version_says_how_it_scales() {
        let defaulted = |version: &str| {
            let mut object = json!({"spec": {"maxReplicas": 2, "behavior": {"scaleUp": {"policies": []}}}});
            object.set("apiVersion", version);
            HorizontalPodAutoscaler.default(&mut object);
            object.at("spec").clone()
        };
        let second = defaulted("autoscaling/v2");
        assert_eq!(second.items("metrics"), [cpu(80)]);
        assert_eq!(second.way("behavior.scaleUp").at("policies"), &json!([]));
        assert_eq!(
            second.way("behavior.scaleDown"),
            &json!({"selectPolicy": "Max", "policies": [policy("Percent", 100)]})
        );
        let first = defaulted("autoscaling/v1");
        assert_eq!((first.int("minReplicas"), first.has("metrics")), (Some(1), false));
    }
}
