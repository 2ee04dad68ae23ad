//! What a webhook, policy or binding matches: selectors, rules, match conditions, parameters.

use serde_json::{Value, json};

use super::{expression::ExpressionChecker, rule};
use crate::{
    admission::OptionalVariableDeclarations,
    field::{Error, Path},
    kinds::field_checks,
    name,
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{ErrorList, Tree, TreeMut},
};

pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const MAX_CONDITIONS: usize = 64;

// upstream: pkg/apis/admissionregistration/v1/defaults.go SetDefaults_MatchResources
pub(super) fn set_defaults_match_resources(spec: &mut Value, field: &str) {
    let Some(resources) = spec.at_mut(field).filter(|value| !value.is_null()) else {
        return;
    };
    resources.set_default("matchPolicy", "Equivalent");
    resources.set_default("namespaceSelector", json!({}));
    resources.set_default("objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        rule::set_defaults_rules(resources, list);
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateMatchResources
pub(super) fn validate_match_resources(resources: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let policy = resources.text("matchPolicy");
    if !resources.has("matchPolicy") {
        errors.push(Error::required(&at.child("matchPolicy"), ""));
    } else if !MATCH_POLICIES.contains(&policy) {
        errors.push(Error::not_supported(
            &at.child("matchPolicy"),
            policy,
            MATCH_POLICIES,
        ));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        if resources.has(name) {
            validate_selector(
                resources.at(name),
                InvalidValues::Refused,
                &at.child(name),
                errors,
            );
        } else {
            errors.push(Error::required(&at.child(name), ""));
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        let field_path = at.child(list);
        for (index, rule) in resources.items(list).iter().enumerate() {
            rule::validate_named_rule_with_operations(rule, &field_path.index(index), errors);
        }
    }
}

pub(super) fn validate_selector(
    selector: &Value,
    values: InvalidValues,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    errors.extend(label::validate(at, selector, values, UnknownOperators::Refused));
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateMatchConditions, validateMatchCondition
pub(super) fn validate_match_conditions(
    conditions: &[Value],
    variables: OptionalVariableDeclarations,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let checker = ExpressionChecker::new(variables, &["bool"]);
    if conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(at, Some(conditions.len()), MAX_CONDITIONS));
    }
    let repeated = field_checks::duplicate_flags(conditions.iter().map(|condition| condition.text("name")));
    for (index, condition) in conditions.iter().enumerate() {
        let field_path = at.index(index);
        checker.validate(
            condition.text("expression").trim(),
            "",
            &field_path.child("expression"),
            errors,
        );
        let field_path = field_path.child("name");
        let text = condition.text("name");
        if text.is_empty() {
            errors.push(Error::required(&field_path, ""));
            continue;
        }
        field_checks::push_invalid(text, name::validate_label_key(text), &field_path, errors);
        if repeated[index] {
            errors.push(Error::duplicate(&field_path, text));
        }
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateParamKind
pub(super) fn validate_param_kind(kind: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("apiVersion");
    let version = kind.text("apiVersion");
    match version.matches('/').count() {
        0 if version.is_empty() => errors.push(Error::required(&field_path, "")),
        0 | 1 => validate_group_version(version, &field_path, errors),
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(&field_path, version, detail));
        }
    }
    let text = kind.text("kind");
    if text.is_empty() {
        errors.push(Error::required(&at.child("kind"), ""));
        return;
    }
    let msgs = name::validate_dns1035_label(&text.to_lowercase());
    if !msgs.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            msgs.join(",")
        );
        errors.push(Error::invalid(&at.child("kind"), text, detail));
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateParamKind, parseGroupVersion
fn validate_group_version(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let (group, version) = match text {
        "/" => ("", ""),
        _ => text.split_once('/').unwrap_or(("", text)),
    };
    if !group.is_empty() {
        let msgs = name::validate_dns1123_subdomain(group);
        if !msgs.is_empty() {
            errors.push(Error::invalid(at, group, msgs.join(",")));
        }
    }
    if version.is_empty() {
        errors.push(Error::invalid(at, text, "version must be specified"));
        return;
    }
    let msgs = name::validate_dns1035_label(version);
    if !msgs.is_empty() {
        errors.push(Error::invalid(at, version, msgs.join(",")));
    }
}

// upstream: pkg/apis/admissionregistration/validation/validation.go validateParamRef
pub(super) fn validate_param_ref(reference: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if reference.is_null() {
        return;
    }
    let both = "name and selector are mutually exclusive";
    let text = reference.text("name");
    let by_selector = reference.has("selector");
    if !text.is_empty() {
        let field_path = at.child("name");
        field_checks::push_invalid(text, name::validate_path_segment_name(text), &field_path, errors);
        if by_selector {
            errors.push(Error::forbidden(&field_path, both));
        }
    }
    if by_selector {
        let field_path = at.child("selector");
        validate_selector(
            reference.at("selector"),
            InvalidValues::Refused,
            &field_path,
            errors,
        );
        if !text.is_empty() {
            errors.push(Error::forbidden(&field_path, both));
        }
    }
    if text.is_empty() && !by_selector {
        errors.push(Error::required(at, "one of name or selector must be specified"));
    }
    let field_path = at.child("parameterNotFoundAction");
    match reference.text("parameterNotFoundAction") {
        "" => errors.push(Error::required(&field_path, "")),
        "Allow" | "Deny" => {}
        other => errors.push(Error::not_supported(&field_path, other, ["Deny", "Allow"])),
    }
}
