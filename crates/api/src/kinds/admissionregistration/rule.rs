//! Rules that say which requests are meant: operations, groups, versions, resources.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    rules::{Errors, Tree, TreeMut},
};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// Fills in the scope of each rule of a list.
pub(super) fn default(holder: &mut Value, list: &str) {
    for rule in holder.items_mut(list) {
        rule.fill("scope", "*");
    }
}

/// What is wrong with a rule.
pub(super) fn validate(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("operations");
    present(rule, "operations", at, errors);
    alone(rule, "operations", "operations", at, errors);
    for (index, operation) in rule.texts("operations").enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(
                &field_path.index(index),
                operation,
                OPERATIONS,
            ));
        }
    }
    present(rule, "apiGroups", at, errors);
    alone(rule, "apiGroups", "API groups", at, errors);
    present(rule, "apiVersions", at, errors);
    alone(rule, "apiVersions", "API versions", at, errors);
    let field_path = at.child("apiVersions");
    for (index, version) in rule.texts("apiVersions").enumerate() {
        if version.is_empty() {
            errors.push(Error::required(&field_path.index(index), ""));
        }
    }
    resources(rule, at, errors);
    if rule.has("scope") && !SCOPES.contains(&rule.text("scope")) {
        errors.push(Error::not_supported(
            &at.child("scope"),
            rule.text("scope"),
            SCOPES,
        ));
    }
}

/// What is wrong with a rule that may name objects.
pub(super) fn validate_named(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("resourceNames");
    let repeated = field_checks::duplicate_flags(rule.texts("resourceNames"));
    for (index, text) in rule.texts("resourceNames").enumerate() {
        let field_path = field_path.index(index);
        field_checks::push_invalid(text, name::path_segment_name(text), &field_path, errors);
        if repeated[index] {
            errors.push(Error::duplicate(&field_path, text));
        }
    }
    validate(rule, at, errors);
}

/// What changes objects cannot be asked when they are deleted.
pub(super) fn validate_mutating(rules: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("operations");
    for operation in rules.iter().flat_map(|rule| rule.texts("operations")) {
        if !MUTATING_OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&field_path, operation, MUTATING_OPERATIONS));
        }
    }
}

fn present(rule: &Value, list: &str, at: &Path<'_>, errors: &mut Errors) {
    if rule.items(list).is_empty() {
        errors.push(Error::required(&at.child(list), ""));
    }
}

/// Where everything is meant, nothing else is named.
fn alone(rule: &Value, list: &str, what: &str, at: &Path<'_>, errors: &mut Errors) {
    if rule.items(list).len() > 1 && rule.texts(list).any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&at.child(list), rule.at(list), detail));
    }
}

fn resources(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    present(rule, "resources", at, errors);
    let field_path = at.child("resources");
    let resources = || rule.texts("resources");
    // Only the last resource without a subresource counts: clients know it this way.
    let mut without_part = false;
    let mut before: HashSet<(&str, &str)> = HashSet::new();
    for (index, resource) in resources().enumerate() {
        if resource.is_empty() {
            errors.push(Error::required(&field_path.index(index), ""));
            continue;
        }
        let Some((whole, part)) = resource.split_once('/') else {
            without_part = resource != "*";
            continue;
        };
        for all in [(whole, "*"), ("*", part)] {
            if before.contains(&all) {
                let detail = format!("if '{}/{}' is present, must not specify {resource}", all.0, all.1);
                errors.push(Error::invalid(&field_path.index(index), resource, detail));
            }
        }
        before.insert((whole, part));
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
        let mut errors = Errors::new();
        validate(rule, &Path::new("r"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_rule_names_what_it_means_and_all_things_alone() {
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
