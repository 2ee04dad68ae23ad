//! Topology spread constraints.

use std::collections::HashSet;

use serde_json::Value;

use super::{affinity::validate_label_keys, error_list::ErrorListExt, options::PodValidationOptions};
use crate::{
    field::Path,
    kinds::field_checks,
    name::validate_label_key,
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{ErrorList, Tree},
};

const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
const POLICIES: [&str; 2] = ["Honor", "Ignore"];

// upstream: pkg/apis/core/validation/validation.go validateTopologySpreadConstraints
pub(super) fn validate_topology_spread_constraints(
    constraints: &[Value],
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let pair_of = |constraint: &'_ Value| -> (String, String) {
        let pair = ["topologyKey", "whenUnsatisfiable"].map(|name| constraint.text(name).to_owned());
        pair.into()
    };
    // The pair of a constraint that is repeated later.
    let mut repeated = field_checks::duplicate_flags(constraints.iter().rev().map(pair_of));
    repeated.reverse();
    for (index, constraint) in constraints.iter().enumerate() {
        let field_path = at.index(index);
        validate_positive(
            constraint.int_or_zero("maxSkew"),
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
        if let Some(min) = constraint.int("minDomains") {
            let least_at = field_path.child("minDomains");
            validate_positive(min, &least_at, errors);
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&least_at, min, detail);
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.text(name);
            if constraint.has(name) && !POLICIES.contains(&policy) {
                errors.unsupported(&field_path.child(name), policy, &POLICIES);
            }
        }
        if options.legacy_spread_keys {
            validate_legacy_label_keys(constraint, &field_path.child("matchLabelKeys"), errors);
        } else {
            validate_label_keys(constraint, &field_path, errors);
        }
        if !options.allow_invalid_spread_selector {
            errors.extend(validate_selector(constraint, &field_path.child("labelSelector")));
        }
    }
}

fn validate_positive(number: i64, at: &Path<'_>, errors: &mut ErrorList) {
    if number <= 0 {
        errors.invalid(at, number, "must be greater than zero");
    }
}

fn validate_selector(constraint: &Value, at: &Path<'_>) -> ErrorList {
    let values = InvalidValues::Refused;
    let unknown = UnknownOperators::Refused;
    label::validate(at, constraint.at("labelSelector"), values, unknown).into()
}

/// The legacy rules, from before matchLabelKeys were merged into the selector.
// upstream: pkg/apis/core/validation/validation.go ValidateMatchLabelKeysInTopologySpread
fn validate_legacy_label_keys(constraint: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
        errors.push_invalid(&at.index(index), key, validate_label_key(key));
        if selector.entries("matchLabels").contains_key(key) || selected.contains(key) {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&at.index(index), key, detail);
        }
    }
}

/// Whether a selector is invalid today.
// upstream: pkg/api/pod/util.go hasInvalidTopologySpreadConstraintLabelSelector
pub(super) fn has_invalid_selector(constraints: &[Value]) -> bool {
    constraints
        .iter()
        .any(|constraint| !validate_selector(constraint, &Path::NIL).is_empty())
}

/// Whether matchLabelKeys are invalid today.
// upstream: pkg/api/pod/util.go hasInvalidTopologySpreadConstrainMatchLabelKeys
pub(super) fn has_invalid_keys(constraints: &[Value]) -> bool {
    let mut errors = ErrorList::new();
    for constraint in constraints {
        validate_label_keys(constraint, &Path::NIL, &mut errors);
    }
    !errors.is_empty()
}
