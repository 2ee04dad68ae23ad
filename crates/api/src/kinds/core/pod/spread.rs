//! How pods are spread among zones, nodes and the like.

use std::collections::HashSet;

use serde_json::Value;

use super::{affinity::label_keys, options::Options, report::Report};
use crate::{
    field::Path,
    kinds::field_checks,
    name::label_key,
    rules::{Errors, Tree},
    selector::label::{self, InvalidValues, UnknownOperators},
};

const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: [&str; 2] = ["Honor", "Ignore"];

/// What is wrong with constraints.
pub(super) fn validate(constraints: &[Value], options: &Options, at: &Path<'_>, errors: &mut Errors) {
    let pair_of = |constraint: &'_ Value| -> (String, String) {
        let pair = ["topologyKey", "whenUnsatisfiable"].map(|name| constraint.text(name).to_owned());
        pair.into()
    };
    // The pair of a constraint that has another one behind it.
    let mut repeated = field_checks::duplicate_flags(constraints.iter().rev().map(pair_of));
    repeated.reverse();
    for (index, constraint) in constraints.iter().enumerate() {
        let field_path = at.index(index);
        positive(
            constraint.int("maxSkew").unwrap_or_default(),
            &field_path.child("maxSkew"),
            errors,
        );
        let key = constraint.text("topologyKey");
        let action = constraint.text("whenUnsatisfiable");
        if key.is_empty() {
            errors.required(&field_path.child("topologyKey"), "can not be empty");
        }
        if !ACTIONS.contains(&action) {
            errors.unsupported(&field_path.child("whenUnsatisfiable"), action, &ACTIONS);
        }
        if repeated[index] {
            let pair_at = field_path.child("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(&pair_at, &format!("{{{key}, {action}}}"));
        }
        if let Some(least) = constraint.int("minDomains") {
            let least_at = field_path.child("minDomains");
            positive(least, &least_at, errors);
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&least_at, least, detail);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.text(name);
            if constraint.has(name) && !POLICIES.contains(&policy) {
                errors.unsupported(&field_path.child(name), policy, &POLICIES);
            }
        }
        if options.old_spread_keys {
            old_label_keys(constraint, &field_path.child("matchLabelKeys"), errors);
        } else {
            label_keys(constraint, &field_path, errors);
        }
        if !options.any_spread_selector {
            errors.extend(selector(constraint, &field_path.child("labelSelector")));
        }
    }
}

fn positive(number: i64, at: &Path<'_>, errors: &mut Errors) {
    if number <= 0 {
        errors.invalid(at, number, "must be greater than zero");
    }
}

fn selector(constraint: &Value, at: &Path<'_>) -> Errors {
    let refused = InvalidValues::Refused;
    let unknown = UnknownOperators::Refused;
    label::validate(at, constraint.at("labelSelector"), refused, unknown).into()
}

/// As it was before keys were merged into the selector.
fn old_label_keys(constraint: &Value, at: &Path<'_>, errors: &mut Errors) {
    if constraint.items("matchLabelKeys").is_empty() {
        return;
    }
    let selector = constraint.at("labelSelector");
    if selector.is_null() {
        errors.forbidden(at, "must not be specified when labelSelector is not set");
    }
    let expressions = selector.items("matchExpressions").iter();
    let selected: HashSet<&str> = expressions.map(|expression| expression.text("key")).collect();
    for (index, key) in constraint.texts("matchLabelKeys").enumerate() {
        errors.push_invalid(&at.index(index), key, label_key(key));
        if selector.entries("matchLabels").contains_key(key) || selected.contains(key) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&at.index(index), key, detail);
        }
    }
}

/// Whether a selector is not valid today.
pub(super) fn has_invalid_selector(constraints: &[Value]) -> bool {
    constraints
        .iter()
        .any(|constraint| !selector(constraint, &Path::NOWHERE).is_empty())
}

/// Whether keys of labels are not valid today.
pub(super) fn has_invalid_keys(constraints: &[Value]) -> bool {
    let mut errors = Errors::new();
    for constraint in constraints {
        label_keys(constraint, &Path::NOWHERE, &mut errors);
    }
    !errors.is_empty()
}
