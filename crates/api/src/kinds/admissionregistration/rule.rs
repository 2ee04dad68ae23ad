//! RuleWithOperations: the operations, groups, versions and resources that are matched.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    strategy::{ErrorList, Tree, TreeMut},
};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

// upstream: pkg/apis/admissionregistration/v1/defaults.go SetDefaults_Rule
pub(super) fn set_defaults_rules(holder: &mut Value, list: &str) {
    for rule in holder.items_mut(list) {
        rule.set_default("scope", "*");
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateRuleWithOperations, validateRule
pub(super) fn validate_rule_with_operations(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("operations");
    require_items(rule, "operations", at, errors);
    validate_wildcard_alone(rule, "operations", "operations", at, errors);
    for (index, operation) in rule.texts("operations").enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(
                &field_path.index(index),
                operation,
                OPERATIONS,
            ));
        }
    }
    require_items(rule, "apiGroups", at, errors);
    validate_wildcard_alone(rule, "apiGroups", "API groups", at, errors);
    require_items(rule, "apiVersions", at, errors);
    validate_wildcard_alone(rule, "apiVersions", "API versions", at, errors);
    let field_path = at.child("apiVersions");
    for (index, version) in rule.texts("apiVersions").enumerate() {
        if version.is_empty() {
            errors.push(Error::required(&field_path.index(index), ""));
        }
    }
    validate_resources(rule, at, errors);
    if rule.has("scope") && !SCOPES.contains(&rule.text("scope")) {
        errors.push(Error::not_supported(
            &at.child("scope"),
            rule.text("scope"),
            SCOPES,
        ));
    }
}

/// Validates a rule with resourceNames.
// upstream: pkg/apis/admissionregistration/validation/validation.go validateNamedRuleWithOperations
pub(super) fn validate_named_rule_with_operations(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("resourceNames");
    let repeated = field_checks::duplicate_flags(rule.texts("resourceNames"));
    for (index, text) in rule.texts("resourceNames").enumerate() {
        let field_path = field_path.index(index);
        field_checks::push_invalid(text, name::validate_path_segment_name(text), &field_path, errors);
        if repeated[index] {
            errors.push(Error::duplicate(&field_path, text));
        }
    }
    validate_rule_with_operations(rule, at, errors);
}

/// Mutating policies cannot match DELETE.
pub(super) fn validate_mutating_operations(rules: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("operations");
    for operation in rules.iter().flat_map(|rule| rule.texts("operations")) {
        if !MUTATING_OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&field_path, operation, MUTATING_OPERATIONS));
        }
    }
}

fn require_items(rule: &Value, list: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if rule.items(list).is_empty() {
        errors.push(Error::required(&at.child(list), ""));
    }
}

/// A wildcard must be the only item of its list.
fn validate_wildcard_alone(rule: &Value, list: &str, what: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if rule.items(list).len() > 1 && rule.texts(list).any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&at.child(list), rule.at(list), detail));
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateResources
fn validate_resources(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    require_items(rule, "resources", at, errors);
    let field_path = at.child("resources");
    let resources = || rule.texts("resources");
    // upstream: pkg/apis/admissionregistration/validation/validation.go validateResources; only the last resource without a subresource counts
    let mut without_part = false;
    let mut before: HashSet<(&str, &str)> = HashSet::new();
    for (index, resource) in resources().enumerate() {
        if resource.is_empty() {
            errors.push(Error::required(&field_path.index(index), ""));
            continue;
        }
        let Some((resource_name, subresource)) = resource.split_once('/') else {
            without_part = resource != "*";
            continue;
        };
        for all in [(resource_name, "*"), ("*", subresource)] {
            if before.contains(&all) {
                let detail = format!("if '{}/{}' is present, must not specify {resource}", all.0, all.1);
                errors.push(Error::invalid(&field_path.index(index), resource, detail));
            }
        }
        before.insert((resource_name, subresource));
    }
    if resources().count() > 1 && resources().any(|resource| resource == "*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(Error::invalid(&field_path, rule.at("resources"), detail));
    }
    if without_part && resources().any(|resource| resource == "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(&field_path, rule.at("resources"), detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(rule: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_rule_with_operations(rule, &Path::new("r"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_incomplete_rules_and_mixed_wildcards() {
        let mut rule = json!({
            "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods", "pods/status"],
        });
        assert_eq!(messages(&rule), [] as [&str; 0]);
        rule["operations"] = json!(["*", "READ"]);
        rule["resources"] = json!(["*", "a/*", "*/b", "a/b", "pods"]);
        rule["scope"] = json!("Some");
        assert_eq!(
            messages(&rule),
            [
                "r.operations: Invalid value: [\"*\",\"READ\"]: if '*' is present, must not specify other operations",
                "r.operations[1]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \
                 \"DELETE\", \"UPDATE\"",
                "r.resources[3]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b",
                "r.resources[3]: Invalid value: \"a/b\": if '*/b' is present, must not specify a/b",
                "r.resources: Invalid value: [\"*\",\"a/*\",\"*/b\",\"a/b\",\"pods\"]: if '*' is present, must not \
                 specify other resources without subresources",
                "r.scope: Unsupported value: \"Some\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
            ]
        );
        assert_eq!(messages(&json!({})).len(), 4);
    }
}
