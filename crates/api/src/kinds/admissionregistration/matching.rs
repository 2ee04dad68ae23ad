//! What a webhook, a policy or a binding is asked for: selectors, rules, conditions, parameters.

use serde_json::{Value, json};

use super::{expression::Wanted, rule};
use crate::{
    admission::OptionalVariableDeclarations,
    field::{Error, Path},
    kinds::demand,
    name,
    strategy::{ErrorList, Tree, TreeMut},
    selector::label::{self, InvalidValues, UnknownOperators},
};

pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const MAX_CONDITIONS: usize = 64;

/// Fills in which objects are meant.
pub(super) fn default(spec: &mut Value, field: &str) {
    let Some(resources) = spec.at_mut(field).filter(|value| !value.is_null()) else {
        return;
    };
    resources.set_default("matchPolicy", "Equivalent");
    resources.set_default("namespaceSelector", json!({}));
    resources.set_default("objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        rule::default(resources, list);
    }
}

/// What is wrong with which objects are meant.
pub(super) fn resources(resources: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
            selector(
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
        let place = at.child(list);
        for (index, rule) in resources.items(list).iter().enumerate() {
            rule::validate_named(rule, &place.index(index), errors);
        }
    }
}

/// What is wrong with a selector of labels.
pub(super) fn selector(selector: &Value, values: InvalidValues, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(label::validate(at, selector, values, UnknownOperators::Refused));
}

/// What is wrong with the conditions of a webhook or policy.
pub(super) fn conditions(conditions: &[Value], params: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let wanted = Wanted::new(
        OptionalVariableDeclarations {
            params,
            authorizer: true,
        },
        &["bool"],
    );
    if conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(at, Some(conditions.len()), MAX_CONDITIONS));
    }
    let repeated = demand::repeated(conditions.iter().map(|condition| condition.text("name")));
    for (index, condition) in conditions.iter().enumerate() {
        let place = at.index(index);
        wanted.validate(
            condition.text("expression").trim(),
            "",
            &place.child("expression"),
            errors,
        );
        let place = place.child("name");
        let text = condition.text("name");
        if text.is_empty() {
            errors.push(Error::required(&place, ""));
            continue;
        }
        demand::tell(text, name::validate_label_key(text), &place, errors);
        if repeated[index] {
            errors.push(Error::duplicate(&place, text));
        }
    }
}

/// What is wrong with the kind of the parameters of a policy.
pub(super) fn param_kind(kind: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let place = at.child("apiVersion");
    let version = kind.text("apiVersion");
    match version.matches('/').count() {
        0 if version.is_empty() => errors.push(Error::required(&place, "")),
        0 | 1 => group_version(version, &place, errors),
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(&place, version, detail));
        }
    }
    let text = kind.text("kind");
    if text.is_empty() {
        errors.push(Error::required(&at.child("kind"), ""));
        return;
    }
    let faults = name::validate_dns1035_label(&text.to_lowercase());
    if !faults.is_empty() {
        let detail = format!(
            "may have mixed case, but should otherwise match: {}",
            faults.join(",")
        );
        errors.push(Error::invalid(&at.child("kind"), text, detail));
    }
}

fn group_version(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let (group, version) = match text {
        "/" => ("", ""),
        _ => text.split_once('/').unwrap_or(("", text)),
    };
    if !group.is_empty() {
        let faults = name::validate_dns1123_subdomain(group);
        if !faults.is_empty() {
            errors.push(Error::invalid(at, group, faults.join(",")));
        }
    }
    if version.is_empty() {
        errors.push(Error::invalid(at, text, "version must be specified"));
        return;
    }
    let faults = name::validate_dns1035_label(version);
    if !faults.is_empty() {
        errors.push(Error::invalid(at, version, faults.join(",")));
    }
}

/// What is wrong with the parameters that a binding points at.
pub(super) fn param_ref(reference: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if reference.is_null() {
        return;
    }
    let both = "name and selector are mutually exclusive";
    let (text, by_selector) = (reference.text("name"), reference.has("selector"));
    if !text.is_empty() {
        let place = at.child("name");
        demand::tell(text, name::validate_path_segment_name(text), &place, errors);
        if by_selector {
            errors.push(Error::forbidden(&place, both));
        }
    }
    if by_selector {
        let place = at.child("selector");
        selector(reference.at("selector"), InvalidValues::Refused, &place, errors);
        if !text.is_empty() {
            errors.push(Error::forbidden(&place, both));
        }
    }
    if text.is_empty() && !by_selector {
        errors.push(Error::required(at, "one of name or selector must be specified"));
    }
    let place = at.child("parameterNotFoundAction");
    match reference.text("parameterNotFoundAction") {
        "" => errors.push(Error::required(&place, "")),
        "Allow" | "Deny" => {}
        other => errors.push(Error::not_supported(&place, other, ["Deny", "Allow"])),
    }
}
