//! Restart policies of containers, and resize policies.

use serde_json::Value;

use super::{error_list::ErrorListExt, options::PodValidationOptions};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree},
};

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Validates the restart policy and restart rules of a container (KEP-5307).
// upstream: pkg/apis/core/validation/validation.go validateContainerRestartPolicy
pub(super) fn validate_restart_policy(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let rules = container.items("restartPolicyRules");
    let policy_at = at.child("restartPolicy");
    if !container.has("restartPolicy") {
        if rules.is_empty() {
            return;
        }
        errors.required(
            &policy_at,
            "must specify restartPolicy when restart rules are used",
        );
    } else if !POLICIES.contains(&container.text("restartPolicy")) {
        errors.unsupported(&policy_at, container.text("restartPolicy"), &POLICIES);
    }
    let rules_at = at.child("restartPolicyRules");
    if rules.len() > MAX_RULES {
        errors.push(Error::too_many(&rules_at, Some(rules.len()), MAX_RULES));
    }
    for (index, rule) in rules.iter().enumerate() {
        let field_path = rules_at.index(index);
        let action = rule.text("action");
        if !ACTIONS.contains(&action) {
            errors.unsupported(&field_path.child("action"), action, &ACTIONS);
        }
        let codes_at = field_path.child("exitCodes");
        if !rule.has("exitCodes") {
            errors.required(&codes_at, "must be specified");
            continue;
        }
        let codes = rule.at("exitCodes");
        let operator = codes.text("operator");
        if !OPERATORS.contains(&operator) {
            errors.unsupported(&codes_at.child("operator"), operator, &OPERATORS);
        }
        let count = codes.items("values").len();
        if count > MAX_EXIT_CODES {
            errors.push(Error::too_many(
                &codes_at.child("values"),
                Some(count),
                MAX_EXIT_CODES,
            ));
        }
    }
}

/// The same for an init container, which may have rules only.
// upstream: pkg/apis/core/validation/validation.go validateInitContainerRestartPolicy
pub(super) fn validate_init_restart_policy(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if container.has("restartPolicy") {
        validate_restart_policy(container, at, errors);
    } else if !container.items("restartPolicyRules").is_empty() {
        let detail = "must specify restartPolicy when restart rules are used";
        errors.required(&at.child("restartPolicy"), detail);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateResizePolicy
pub(super) fn validate_resize_policy(
    container: &Value,
    pod_policy: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let policies = container.items("resizePolicy");
    let repeated = field_checks::duplicate_flags(policies.iter().map(|policy| policy.text("resourceName")));
    for (index, policy) in policies.iter().enumerate() {
        let resource = policy.text("resourceName");
        let restart = policy.text("restartPolicy");
        if repeated[index] {
            errors.duplicate(&at.index(index), resource);
        }
        errors.required_enum(at, resource, &["cpu", "memory"]);
        errors.required_enum(at, restart, &["NotRequired", "RestartContainer"]);
        if pod_policy == "Never" && restart != "NotRequired" {
            errors.invalid(
                at,
                restart,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            );
        }
    }
}

/// An init container that is no sidecar has ended before a resize, and cannot restart for it.
// upstream: pkg/apis/core/validation/validation.go validateResizePolicy
pub(super) fn validate_init_resize_policy(
    container: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if super::options::is_sidecar(container) || options.allow_init_restart_resize_policy {
        return;
    }
    let list_at = at.child("resizePolicy");
    for (index, policy) in container.items("resizePolicy").iter().enumerate() {
        if policy.text("restartPolicy") == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(
                &list_at.index(index).child("restartPolicy"),
                "RestartContainer",
                detail,
            );
        }
    }
}

/// Whether some container may restart all of them.
pub(super) fn may_restart_all(spec: &Value) -> bool {
    ["initContainers", "containers"].into_iter().any(|list| {
        spec.items(list).iter().any(|container| {
            let mut rules = container.items("restartPolicyRules").iter();
            rules.any(|rule| rule.text("action") == "RestartAllContainers")
        })
    })
}

/// Whether a container that terminated with this code restarts.
// upstream: pkg/apis/core/validation/validation.go ValidateContainerStateTransition
pub(super) fn restarts(container: &Value, spec: &Value, code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(code != 0),
        "Never" => Some(false),
        _ => None,
    };
    if container.has("restartPolicy") {
        let mut rules = container.items("restartPolicyRules").iter();
        let matching = rules.find(|rule| {
            let codes = rule.at("exitCodes");
            let listed = codes
                .items("values")
                .iter()
                .any(|value| value.as_i64() == Some(code));
            match codes.text("operator") {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        });
        if matching.is_some_and(|rule| ACTIONS.contains(&rule.text("action"))) {
            return true;
        }
        if let Some(restarts) = by_policy(container.text("restartPolicy")) {
            return restarts;
        }
    }
    by_policy(spec.text("restartPolicy")).unwrap_or(true)
}
