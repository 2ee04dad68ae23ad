//! Node affinity, pod affinity and pod anti-affinity.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{error_list::ErrorListExt, options::PodValidationOptions};
use crate::{
    field::Path,
    kinds::core::node_selector::{self, InvalidSelectorValues},
    name::{validate_dns1123_label, validate_label_key},
    selector::label::{self, InvalidValues, UnknownOperators},
    strategy::{ErrorList, Tree},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

// upstream: pkg/apis/core/validation/validation.go validateAffinity, validatePodAffinity, validatePodAntiAffinity
pub(super) fn validate_affinity(
    affinity: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if affinity.has("nodeAffinity") {
        validate_node_affinity(
            affinity.at("nodeAffinity"),
            options,
            &at.child("nodeAffinity"),
            errors,
        );
    }
    let values = if options.allow_invalid_pod_selector_values {
        InvalidValues::Taken
    } else {
        InvalidValues::Refused
    };
    for name in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.at(name);
        let field_path = at.child(name);
        let list_at = field_path.child(REQUIRED);
        for (index, term) in terms.items(REQUIRED).iter().enumerate() {
            validate_pod_affinity_term(term, values, &list_at.index(index), errors);
        }
        let list_at = field_path.child(PREFERRED);
        for (index, weighted) in terms.items(PREFERRED).iter().enumerate() {
            let item_at = list_at.index(index);
            validate_weight(weighted, &item_at, errors);
            let term = weighted.at("podAffinityTerm");
            validate_pod_affinity_term(term, values, &item_at.child("podAffinityTerm"), errors);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateWeightedPodAffinityTerms
fn validate_weight(term: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let weight = term.int_or_zero("weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(&at.child("weight"), weight, "must be in the range 1-100");
    }
}

// upstream: pkg/apis/core/validation/validation.go validateNodeAffinity, ValidatePreferredSchedulingTerms
fn validate_node_affinity(
    affinity: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if affinity.has(REQUIRED) {
        let values = if options.allow_invalid_node_selector_values {
            InvalidSelectorValues::Taken
        } else {
            InvalidSelectorValues::Checked
        };
        node_selector::validate_node_selector(affinity.at(REQUIRED), values, &at.child(REQUIRED), errors);
    }
    let list_at = at.child(PREFERRED);
    for (index, term) in affinity.items(PREFERRED).iter().enumerate() {
        let item_at = list_at.index(index);
        validate_weight(term, &item_at, errors);
        // Preferred terms that no node can match are harmless.
        let preference = term.at("preference");
        node_selector::validate_node_selector_term(
            preference,
            InvalidSelectorValues::Taken,
            &item_at.child("preference"),
            errors,
        );
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodAffinityTerm
fn validate_pod_affinity_term(term: &Value, values: InvalidValues, at: &Path<'_>, errors: &mut ErrorList) {
    for name in ["labelSelector", "namespaceSelector"] {
        let field_path = at.child(name);
        errors.extend(label::validate(
            &field_path,
            term.at(name),
            values,
            UnknownOperators::Refused,
        ));
    }
    for name in term.texts("namespaces") {
        errors.push_invalid(&at.child("namespace"), name, validate_dns1123_label(name));
    }
    validate_label_keys(term, at, errors);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.required(&at.child("topologyKey"), "can not be empty");
    }
    errors.push_invalid(&at.child("topologyKey"), key, validate_label_key(key));
}

/// Validates matchLabelKeys and mismatchLabelKeys. The strategy merged them into the selector before, so a key that occurs twice
/// there was in both.
// upstream: pkg/apis/core/validation/validation.go ValidateMatchLabelKeysAndMismatchLabelKeys, validateLabelKeys
pub(super) fn validate_label_keys(term: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let selector = term.at("labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let list_at = at.child(name);
        if selector.is_null() && !term.items(name).is_empty() {
            errors.forbidden(&list_at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in term.texts(name).enumerate() {
            errors.push_invalid(&list_at.index(index), key, validate_label_key(key));
        }
    }
    let match_keys: Vec<&str> = term.texts("matchLabelKeys").collect();
    // The last index of each key.
    let last_indexes: HashMap<&str, usize> = match_keys
        .iter()
        .enumerate()
        .map(|(index, key)| (*key, index))
        .collect();
    let mut seen: HashSet<&str> = selector
        .entries("matchLabels")
        .keys()
        .map(String::as_str)
        .collect();
    for expression in selector.items("matchExpressions") {
        let key = expression.text("key");
        if let Some(index) = last_indexes.get(key)
            && seen.contains(key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&at.index(*index), key, detail);
        }
        seen.insert(key);
    }
    let list_at = at.child("matchLabelKeys");
    let unwanted: HashSet<&str> = term.texts("mismatchLabelKeys").collect();
    for (index, key) in match_keys.into_iter().enumerate() {
        if unwanted.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&list_at.index(index), key, detail);
        }
    }
}

/// Whether a pod selector has values that are invalid today.
// upstream: pkg/api/pod/util.go hasInvalidLabelValueInAffinitySelector
pub(super) fn has_invalid_pod_values(affinity: &Value) -> bool {
    let invalid = |term: &Value| {
        ["labelSelector", "namespaceSelector"].into_iter().any(|name| {
            let values = InvalidValues::Refused;
            !label::validate(&Path::NIL, term.at(name), values, UnknownOperators::Refused).is_empty()
        })
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|name| {
        let terms = affinity.at(name);
        terms.items(REQUIRED).iter().any(invalid)
            || terms
                .items(PREFERRED)
                .iter()
                .any(|weighted| invalid(weighted.at("podAffinityTerm")))
    })
}

/// Whether a required node selector has values that are invalid today.
// upstream: pkg/api/pod/util.go hasInvalidLabelValueInRequiredNodeAffinity
pub(super) fn has_invalid_node_values(affinity: &Value) -> bool {
    let mut errors = ErrorList::new();
    for term in affinity
        .at("nodeAffinity")
        .at(REQUIRED)
        .items("nodeSelectorTerms")
    {
        node_selector::validate_node_selector_term(
            term,
            InvalidSelectorValues::Checked,
            &Path::NIL,
            &mut errors,
        );
    }
    !errors.is_empty()
}
