//! Which nodes and which other pods a pod wants to be near to, or far from.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{options::Options, report::Report};
use crate::{
    field::Path,
    kinds::core::node_selector::{self, Values},
    name::{dns1123_label, label_key},
    rules::{Errors, Tree},
    selector::label::{self, InvalidValues, UnknownOperators},
};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What is wrong with what a pod wants to be near to.
pub(super) fn validate(affinity: &Value, options: &Options, at: &Path<'_>, errors: &mut Errors) {
    if affinity.has("nodeAffinity") {
        node_affinity(
            affinity.at("nodeAffinity"),
            options,
            &at.child("nodeAffinity"),
            errors,
        );
    }
    let values = if options.any_pod_values {
        InvalidValues::Taken
    } else {
        InvalidValues::Refused
    };
    for name in ["podAffinity", "podAntiAffinity"] {
        let terms = affinity.at(name);
        let field_path = at.child(name);
        let list_at = field_path.child(REQUIRED);
        for (index, term) in terms.items(REQUIRED).iter().enumerate() {
            pod_term(term, values, &list_at.index(index), errors);
        }
        let list_at = field_path.child(PREFERRED);
        for (index, weighted) in terms.items(PREFERRED).iter().enumerate() {
            let item_at = list_at.index(index);
            weight(weighted, &item_at, errors);
            let term = weighted.at("podAffinityTerm");
            pod_term(term, values, &item_at.child("podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let weight = term.int("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.invalid(&at.child("weight"), weight, "must be in the range 1-100");
    }
}

fn node_affinity(affinity: &Value, options: &Options, at: &Path<'_>, errors: &mut Errors) {
    if affinity.has(REQUIRED) {
        let values = if options.any_node_values {
            Values::Taken
        } else {
            Values::Checked
        };
        node_selector::validate(affinity.at(REQUIRED), values, &at.child(REQUIRED), errors);
    }
    let list_at = at.child(PREFERRED);
    for (index, term) in affinity.items(PREFERRED).iter().enumerate() {
        let item_at = list_at.index(index);
        weight(term, &item_at, errors);
        // A wish that no node can fulfil does no harm.
        let preference = term.at("preference");
        node_selector::validate_term(preference, Values::Taken, &item_at.child("preference"), errors);
    }
}

fn pod_term(term: &Value, values: InvalidValues, at: &Path<'_>, errors: &mut Errors) {
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
        errors.push_invalid(&at.child("namespace"), name, dns1123_label(name));
    }
    label_keys(term, at, errors);
    let key = term.text("topologyKey");
    if key.is_empty() {
        errors.required(&at.child("topologyKey"), "can not be empty");
    }
    errors.push_invalid(&at.child("topologyKey"), key, label_key(key));
}

/// What is wrong with the keys of labels a term takes the pod's own values for. They were merged into the selector
/// before, so a key that stands there twice was in both.
pub(super) fn label_keys(term: &Value, at: &Path<'_>, errors: &mut Errors) {
    let selector = term.at("labelSelector");
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        let list_at = at.child(name);
        if selector.is_null() && !term.items(name).is_empty() {
            errors.forbidden(&list_at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in term.texts(name).enumerate() {
            errors.push_invalid(&list_at.index(index), key, label_key(key));
        }
    }
    let wanted: Vec<&str> = term.texts("matchLabelKeys").collect();
    // The last place of each key.
    let places: HashMap<&str, usize> = wanted
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
        if let Some(index) = places.get(key)
            && seen.contains(key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.invalid(&at.index(*index), key, detail);
        }
        seen.insert(key);
    }
    let list_at = at.child("matchLabelKeys");
    let unwanted: HashSet<&str> = term.texts("mismatchLabelKeys").collect();
    for (index, key) in wanted.into_iter().enumerate() {
        if unwanted.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(&list_at.index(index), key, detail);
        }
    }
}

/// Whether a selector of pods is not valid today.
pub(super) fn has_invalid_pod_values(affinity: &Value) -> bool {
    let invalid = |term: &Value| {
        ["labelSelector", "namespaceSelector"].into_iter().any(|name| {
            let refused = InvalidValues::Refused;
            !label::validate(&Path::NOWHERE, term.at(name), refused, UnknownOperators::Refused).is_empty()
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

/// Whether a selector of nodes is not valid today.
pub(super) fn has_invalid_node_values(affinity: &Value) -> bool {
    let mut errors = Errors::new();
    for term in affinity
        .at("nodeAffinity")
        .at(REQUIRED)
        .items("nodeSelectorTerms")
    {
        node_selector::validate_term(term, Values::Checked, &Path::NOWHERE, &mut errors);
    }
    !errors.is_empty()
}
