//! How much the objects of a namespace may use together.

use std::{cell::LazyCell, collections::BTreeSet};

use serde_json::{Value, json};

use super::pod::resources::{
    is_standard_quota, quantity_or_zero, set_defaults_resource_list, validate_quota_resource_name,
    validate_resource_quantity_value,
};
use crate::{
    apply::managed::ResetFields,
    field::{BadValue, Error, Path},
    kinds::{
        go_values::{self, typed_string},
        reset_fields,
    },
    limits::{self, MAX_VALUE_BYTES},
    quantity::Quantity,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ResourceQuota;

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the \
         node.",
    ),
    Column::age(),
];

/// Scopes that pods are either in or not; a selector can only ask whether they are.
const YES_OR_NO: [&str; 5] = [
    "BestEffort",
    "NotBestEffort",
    "Terminating",
    "NotTerminating",
    "CrossNamespacePodAffinity",
];

/// Scopes that nothing is in both of.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

const OF_PODS: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];

// upstream: pkg/registry/core/resourcequota/strategy.go resourcequotaStrategy
impl RestStrategy for ResourceQuota {
    fn set_defaults(&self, object: &mut Value) {
        for (part, list) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            if let Some(list) = object.at_mut(part).and_then(|part| part.at_mut(list)) {
                set_defaults_resource_list(list);
            }
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateResourceQuota
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        spec(errors, object.at("spec"));
        status(errors, object.at("status"));
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateResourceQuotaUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        spec(errors, new.at("spec"));
        let scopes = |quota: &Value| -> BTreeSet<String> {
            quota.at("spec").texts("scopes").map(str::to_owned).collect()
        };
        if scopes(new) != scopes(old) {
            let root = Path::new("spec");
            let shown = go_values::json_value(new.at("spec").at("scopes"));
            errors.push(Error::invalid(&root.child("scopes"), shown, "field is immutable"));
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidateResourceQuotaStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        if new.at("metadata").text("resourceVersion").is_empty() {
            errors.push(Error::required(&Path::new("resourceVersion"), ""));
        }
        status(errors, new.at("status"));
    }

    // upstream: pkg/registry/core/resourcequota/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = new.at("spec").at("hard");
        let read = |name: &str| {
            hard.has(name)
                .then(|| Quantity::from_value(hard.at(name)).ok())
                .flatten()
        };
        let mut warnings = Vec::new();
        for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let mut asked = format!("requests.{resource}");
            if !hard.has(&asked) && matches!(resource, "cpu" | "memory") {
                resource.clone_into(&mut asked);
            }
            let limited = format!("limits.{resource}");
            if let (Some(request), Some(limit)) = (read(&asked), read(&limited))
                && request > limit
            {
                warnings.push(format!(
                    "ResourceQuota {asked} ({request}) should be less than {limited} ({limit})"
                ));
            }
        }
        warnings
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        reset_fields::spec_reset_by_status(subresource)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printResourceQuota
    fn row(&self, object: &Value, now: Time) -> Row {
        let status = object.at("status");
        let mut requests = Vec::new();
        let mut limits = Vec::new();
        for (name, hard) in status.entries("hard") {
            let used = status.at("used").at(name).as_str().unwrap_or("0");
            let text = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
            if name.starts_with("limits.") {
                limits.push(text);
            } else {
                requests.push(text);
            }
        }
        named_row(
            object,
            now,
            [json!(requests.join(", ")), json!(limits.join(", "))],
        )
    }
}

fn spec(errors: &mut ErrorList, spec: &Value) {
    let root = Path::new("spec");
    amounts(errors, &root.child("hard"), spec.at("hard"));
    scopes(errors, &root.child("scopes"), spec);
    if spec.has("scopeSelector") {
        let field_path = root.child("scopeSelector");
        expressions(errors, &field_path.child("matchExpressions"), spec);
    }
}

fn status(errors: &mut ErrorList, status: &Value) {
    let root = Path::new("status");
    for list in ["hard", "used"] {
        amounts(errors, &root.child(list), status.at(list));
    }
}

fn amounts(errors: &mut ErrorList, at: &Path<'_>, list: &Value) {
    for (name, value) in list.as_object().into_iter().flatten() {
        let field_path = at.key(name);
        validate_quota_resource_name(name, &field_path, errors);
        validate_resource_quantity_value(name, &quantity_or_zero(value), &field_path, errors);
    }
}

fn scopes(errors: &mut ErrorList, at: &Path<'_>, spec: &Value) {
    let whole = LazyCell::new(|| go_values::json_value(spec.at("scopes")));
    let shown = || whole.clone();
    let scopes: Vec<_> = spec.texts("scopes").collect();
    for scope in &scopes {
        if !is_standard(scope) {
            errors.push(Error::invalid(at, shown(), "unsupported scope"));
        }
        unfitting(errors, at, spec, scope, shown);
    }
    opposites(errors, at, &scopes, shown);
}

fn expressions(errors: &mut ErrorList, at: &Path<'_>, spec: &Value) {
    let expressions = spec.at("scopeSelector").items("matchExpressions");
    // Many errors may show the whole selector.
    let whole = LazyCell::new(|| {
        let printed = go_values::internal_json("core", "ScopeSelector", spec.at("scopeSelector"));
        BadValue::Printed(limits::cut_owned(printed, MAX_VALUE_BYTES))
    });
    for expression in expressions {
        let scope = expression.text("scopeName");
        if !is_standard(scope) {
            let field_path = at.child("scopeName");
            errors.push(Error::invalid(
                &field_path,
                typed_string(scope),
                "unsupported scope",
            ));
        }
        unfitting(errors, at, spec, scope, || whole.clone());
        let operator = expression.text("operator");
        let field_path = at.child("operator");
        if YES_OR_NO.contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(Error::invalid(&field_path, typed_string(operator), detail));
        }
        let values = expression.items("values");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(Error::required(&at.child("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                let shown = go_values::json_value(expression.at("values"));
                errors.push(Error::invalid(&at.child("values"), shown, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => {
                let detail = "not a valid selector operator";
                errors.push(Error::invalid(&field_path, typed_string(operator), detail));
            }
        }
    }
    let scopes: Vec<_> = expressions.iter().map(|one| one.text("scopeName")).collect();
    opposites(errors, at, &scopes, || go_values::json_value(spec.at("scopes")));
}

/// Tells for each limited resource that it has nothing to do with a scope.
fn unfitting(errors: &mut ErrorList, at: &Path<'_>, spec: &Value, scope: &str, shown: impl Fn() -> BadValue) {
    if errors.is_full() {
        return;
    }
    for name in spec.entries("hard").keys() {
        if is_standard_quota(name) && !fits(scope, name) {
            errors.push(Error::invalid(
                at,
                shown(),
                "unsupported scope applied to resource",
            ));
        }
    }
}

fn opposites(errors: &mut ErrorList, at: &Path<'_>, scopes: &[&str], shown: impl Fn() -> BadValue) {
    for pair in OPPOSITES {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.push(Error::invalid(at, shown(), "conflicting scopes"));
        }
    }
}

fn is_standard(scope: &str) -> bool {
    YES_OR_NO.contains(&scope) || matches!(scope, "PriorityClass" | "VolumeAttributesClass")
}

/// Whether what is in a scope uses a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => OF_PODS.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn msgs(object: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        spec(&mut errors, object);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scopes_fit_what_is_limited() {
        assert_eq!(
            msgs(&json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})),
            [""; 0]
        );
        assert_eq!(
            msgs(&json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort", "X"]})),
            [
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"X\"]: unsupported scope applied to \
                 resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"X\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"X\"]: conflicting scopes",
            ]
        );
    }

    #[test]
    fn a_selector_is_shown_in_its_own_order() {
        let object = json!({"hard": {"services": "1"}, "scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["a"]},
            {"scopeName": "Terminating", "operator": "Exists"},
        ]}});
        let messages = "spec.scopeSelector.matchExpressions: Invalid value: {\"MatchExpressions\":[{\"ScopeName\":\
                    \"PriorityClass\",\"Operator\":\"In\",\"Values\":[\"a\"]},{\"ScopeName\":\"Terminating\",\
                    \"Operator\":\"Exists\",\"Values\":null}]}: unsupported scope applied to resource";
        assert_eq!(msgs(&object), [messages, messages]);
    }

    #[test]
    fn requests_above_limits_are_warned_about() {
        let quota = json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1", "requests.memory": "1", "limits.memory": "2"}}});
        assert_eq!(
            ResourceQuota.warnings(&quota, None),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
        assert!(ResourceQuota.warnings(&quota, Some(&quota)).is_empty());
    }

    #[test]
    fn rows_part_limits_from_the_rest() {
        let quota = json!({
            "metadata": {"name": "q"},
            "status": {"hard": {"limits.cpu": "2", "pods": "4", "cpu": "1"}, "used": {"pods": "3"}},
        });
        let row = ResourceQuota.row(&quota, Time::from_unix(0, 0));
        assert_eq!(
            row.cells,
            ["q", "cpu: 0/1, pods: 3/4", "limits.cpu: 0/2", "<unknown>"]
        );
    }
}
