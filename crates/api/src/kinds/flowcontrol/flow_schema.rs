//! FlowSchema: assigns requests to a priority level (API Priority and Fairness, KEP-1040).

use serde_json::{Value, json};

use super::status;
use crate::{
    bootstrap,
    field::{BadValue, Error, Path},
    kinds::{field_checks, go_values},
    name,
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, age,
    },
    time::Time,
};

const MAX_PRECEDENCE: i64 = 10_000;
const DEFAULT_PRECEDENCE: i64 = 1000;
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
const EACH_NAMESPACE: &str = "each member of this list must be '*' or a DNS-1123 label; ";

/// Index of the column with the matching precedence.
const PRECEDENCE_COLUMN: usize = 2;
const COLUMNS: &[Column] = &[
    Column::name(),
    Column::field("PriorityLevel", "spec.priorityLevelConfiguration.name"),
    Column::field("MatchingPrecedence", "spec.matchingPrecedence"),
    Column::field("DistinguisherMethod", "spec.distinguisherMethod"),
    Column::age(),
    Column::new(
        "MissingPL",
        "string",
        ColumnDescription::text("references a broken or non-existent PriorityLevelConfiguration"),
    ),
];

pub(super) struct FlowSchema;

// upstream: pkg/registry/flowcontrol/flowschema/strategy.go flowSchemaStrategy
impl RestStrategy for FlowSchema {
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.ensure_object("spec");
        if spec.int_or_zero("matchingPrecedence") == 0 {
            spec.set("matchingPrecedence", DEFAULT_PRECEDENCE);
        }
    }

    // upstream: pkg/registry/flowcontrol/flowschema/strategy.go flowSchemaStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        status::prepare_status_for_update(new, old);
    }

    // upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchema
    fn validate(&self, object: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let name = object.at("metadata").text("name");
        let spec = object.at("spec");
        let at = Path::new("spec");
        validate_flow_schema_spec(name, spec, &at, errors);
        if bootstrap::MANDATORY.contains(&name)
            && !bootstrap::flow_schemas().any(|one| is_same_name_and_spec(&one, object))
        {
            let detail = format!("spec of '{name}' must equal the fixed value");
            errors.push(Error::invalid(
                &at,
                BadValue::Printed(go_values::internal_json("flowcontrol", "FlowSchemaSpec", spec)),
                detail,
            ));
        }
        status::validate_status_conditions(object, errors);
    }

    // upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _old: &Value,
        _at: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        status::validate_status_conditions(new, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printFlowSchema
    fn row(&self, object: &Value, now: Time) -> Row {
        let metadata = object.at("metadata");
        let spec = object.at("spec");
        let method = match spec.at("distinguisherMethod") {
            Value::Null => "<none>",
            method => method.text("type"),
        };
        let conditions = object.at("status").items("conditions");
        let dangling = conditions
            .iter()
            .find(|condition| condition.text("type") == "Dangling");
        Row::new(vec![
            json!(metadata.text("name")),
            json!(spec.at("priorityLevelConfiguration").text("name")),
            json!(spec.int_or_zero("matchingPrecedence")),
            json!(method),
            age(metadata.text("creationTimestamp"), now),
            json!(dangling.map_or("?", |condition| condition.text("status"))),
        ])
    }

    fn is_arranged(&self) -> bool {
        true
    }

    /// Sorts rows by matching precedence, as the schemas are tried.
    fn arrange(&self, rows: &mut [(Value, Row)]) {
        rows.sort_by_cached_key(|(schema, row)| {
            let precedence = row.cells[PRECEDENCE_COLUMN].as_i64().unwrap_or_default();
            (precedence, schema.at("metadata").text("name").to_owned())
        });
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchema
fn is_same_name_and_spec(one: &Value, other: &Value) -> bool {
    one.at("metadata").at("name") == other.at("metadata").at("name") && one.at("spec") == other.at("spec")
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaSpec
fn validate_flow_schema_spec(schema_name: &str, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let precedence = spec.int_or_zero("matchingPrecedence");
    let field_path = at.child("matchingPrecedence");
    if precedence <= 0 {
        errors.push(Error::invalid(
            &field_path,
            precedence,
            "must be a positive value",
        ));
    }
    if precedence > MAX_PRECEDENCE {
        let detail = format!("must not be greater than {MAX_PRECEDENCE}");
        errors.push(Error::invalid(&field_path, precedence, detail));
    }
    if precedence == 1 && schema_name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(Error::invalid(&field_path, precedence, detail));
    }
    let method = spec.at("distinguisherMethod");
    if !method.is_null() && !matches!(method.text("type"), "ByNamespace" | "ByUser") {
        let spec_value = BadValue::Printed(go_values::internal_json(
            "flowcontrol",
            "FlowDistinguisherMethod",
            method,
        ));
        let field_path = at.child("distinguisherMethod");
        errors.push(Error::not_supported(
            &field_path.child("type"),
            spec_value,
            ["ByNamespace", "ByUser"],
        ));
    }
    let field_path = at.child("priorityLevelConfiguration");
    let field_path = field_path.child("name");
    match spec.at("priorityLevelConfiguration").text("name") {
        "" => errors.push(Error::required(&field_path, "must reference a priority level")),
        level => field_checks::push_invalid(
            level,
            name::validate_dns1123_subdomain(level),
            &field_path,
            errors,
        ),
    }
    let field_path = at.child("rules");
    for (index, rule) in spec.items("rules").iter().enumerate() {
        validate_policy_rules_with_subjects(rule, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaPolicyRulesWithSubjects
fn validate_policy_rules_with_subjects(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("subjects");
    if rule.items("subjects").is_empty() {
        errors.push(Error::required(
            &field_path,
            "subjects must contain at least one value",
        ));
    }
    for (index, subject) in rule.items("subjects").iter().enumerate() {
        validate_subject(subject, &field_path.index(index), errors);
    }
    if rule.items("resourceRules").is_empty() && rule.items("nonResourceRules").is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(at, detail));
    }
    let field_path = at.child("resourceRules");
    for (index, rule) in rule.items("resourceRules").iter().enumerate() {
        validate_resource_policy_rule(rule, &field_path.index(index), errors);
    }
    let field_path = at.child("nonResourceRules");
    for (index, rule) in rule.items("nonResourceRules").iter().enumerate() {
        validate_non_resource_policy_rule(rule, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaSubject
fn validate_subject(subject: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    const FIELDS: [(&str, &str); 3] = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = subject.text("kind");
    let Some((_, field)) = FIELDS.iter().find(|(subject_kind, _)| *subject_kind == kind) else {
        let kinds = ["Group", "ServiceAccount", "User"];
        errors.push(Error::not_supported(&at.child("kind"), kind, kinds));
        return;
    };
    let field_path = at.child(field);
    if !subject.has(field) {
        let detail = format!("{field} is required when subject kind is '{kind}'");
        errors.push(Error::required(&field_path, detail));
    } else if kind == "ServiceAccount" {
        validate_service_account_subject(subject.at(field), &field_path, errors);
    } else if subject.at(field).text("name").is_empty() {
        errors.push(Error::required(&field_path.child("name"), ""));
    }
    for (other, field) in FIELDS
        .iter()
        .filter(|(other, field)| *other != kind && subject.has(field))
    {
        let detail = format!("{field} is forbidden when subject kind is not '{other}'");
        errors.push(Error::forbidden(&at.child(field), detail));
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateServiceAccountSubject
fn validate_service_account_subject(account: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("name");
    match account.text("name") {
        "" => errors.push(Error::required(&field_path, "")),
        "*" => {}
        text => field_checks::push_invalid(text, name::validate_dns1123_subdomain(text), &field_path, errors),
    }
    let field_path = at.child("namespace");
    match account.text("namespace") {
        "" => errors.push(Error::required(
            &field_path,
            "must specify namespace for service account",
        )),
        text => field_checks::push_invalid(text, name::validate_dns1123_label(text), &field_path, errors),
    }
}

fn has_wildcard(rule: &Value, list: &str) -> bool {
    rule.texts(list).any(|item| item == "*")
}

/// A wildcard must be the only item of its list.
fn validate_wildcard_alone(rule: &Value, list: &str, what: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if rule.items(list).len() > 1 && has_wildcard(rule, list) {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&at.child(list), rule.at(list), detail));
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaResourcePolicyRule, ValidateFlowSchemaNonResourcePolicyRule
fn validate_verbs(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("verbs");
    if rule.items("verbs").is_empty() {
        errors.push(Error::required(
            &field_path,
            "verbs must contain at least one value",
        ));
    } else if has_wildcard(rule, "verbs") {
        validate_wildcard_alone(rule, "verbs", "verbs", at, errors);
    } else if !rule.texts("verbs").all(|verb| VERBS.contains(&verb)) {
        errors.push(Error::not_supported(&field_path, rule.at("verbs"), VERBS));
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaResourcePolicyRule
fn validate_resource_policy_rule(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, at, errors);
    for (list, one, others) in [
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ] {
        if rule.items(list).is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.push(Error::required(&at.child(list), detail));
        }
        validate_wildcard_alone(rule, list, others, at, errors);
    }
    let field_path = at.child("namespaces");
    if rule.items("namespaces").is_empty() && !rule.flag("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(Error::required(&field_path, detail));
    } else if has_wildcard(rule, "namespaces") {
        validate_wildcard_alone(rule, "namespaces", "namespaces", at, errors);
    } else {
        for (index, namespace) in rule.texts("namespaces").enumerate() {
            errors.extend(name::validate_dns1123_label(namespace).into_iter().map(|msg| {
                Error::invalid(
                    &field_path.index(index),
                    namespace,
                    format!("{EACH_NAMESPACE}{msg}"),
                )
            }));
        }
    }
}

// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateFlowSchemaNonResourcePolicyRule
fn validate_non_resource_policy_rule(rule: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, at, errors);
    let field_path = at.child("nonResourceURLs");
    if rule.items("nonResourceURLs").is_empty() {
        errors.push(Error::required(
            &field_path,
            "nonResourceURLs must contain at least one value",
        ));
    } else if has_wildcard(rule, "nonResourceURLs") {
        validate_wildcard_alone(rule, "nonResourceURLs", "non-resource URLs", at, errors);
    } else {
        for (index, path) in rule.texts("nonResourceURLs").enumerate() {
            if let Some(msg) = invalid_non_resource_path(path) {
                errors.push(Error::invalid(&field_path.index(index), path, msg));
            }
        }
    }
}

/// Why a non-resource path, which may end with `/*`, is invalid.
// upstream: pkg/apis/flowcontrol/validation/validation.go ValidateNonResourceURLPath
fn invalid_non_resource_path(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || stars == 1 && !path.ends_with("/*") => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kinds::builtin,
        strategy::{User, create},
    };

    fn messages(mut object: Value) -> Result<Vec<String>, String> {
        let user = User::default();
        let at = StrategyContext {
            kind: builtin()
                .kind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema")
                .unwrap(),
            now: Time::parse("2026-01-02T03:04:05Z").unwrap(),
            user: &user,
        };
        FlowSchema.set_defaults(&mut object);
        create(&mut object, &at).map_err(|status| status.to_json())
    }

    #[test]
    fn bootstrap_schemas_are_valid_and_mandatory_ones_are_fixed() {
        for mut schema in bootstrap::flow_schemas() {
            assert!(messages(schema.clone()).is_ok(), "{schema}");
            let name = schema["metadata"]["name"].as_str().unwrap().to_owned();
            schema["spec"]["rules"] = json!([]);
            assert_eq!(
                messages(schema).is_ok(),
                !bootstrap::MANDATORY.contains(&name.as_str()),
                "{name}"
            );
        }
    }

    #[test]
    fn rejects_changes_of_mandatory_schemas_with_the_whole_spec() {
        let schema = json!({"metadata": {"name": "exempt"}, "spec": {
            "priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1,
        }});
        let expected = r#"spec: Invalid value: {\"PriorityLevelConfiguration\":{\"Name\":\"exempt\"},\"MatchingPrecedence\":1,\"DistinguisherMethod\":null,\"Rules\":null}: spec of 'exempt' must equal the fixed value"#;
        let status = messages(schema).unwrap_err();
        assert!(status.contains(expected), "{status}");
    }

    #[test]
    fn rejects_wildcards_within_paths() {
        assert_eq!(invalid_non_resource_path("/healthz/*"), None);
        assert!(
            invalid_non_resource_path("/he*").is_some()
                && invalid_non_resource_path("/*/x").is_some()
                && invalid_non_resource_path("x").is_some()
        );
    }
}
