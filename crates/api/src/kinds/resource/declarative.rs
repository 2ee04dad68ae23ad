//! Declarative validation of lists, sets and enumerations.
// upstream: pkg/apis/resource/validation/validation.go validateSlice, validateSet; the +k8s: tags of the types give the same rules

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::{field_checks, go_values},
    strategy::{ErrorList, Tree},
};

/// Whether a list is within its limit; reports it if not.
pub(super) fn validate_max_items(items: &[Value], max: usize, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    if items.len() > max {
        errors.push(Error::too_many(at, Some(items.len()), max));
    }
    items.len() <= max
}

/// Rejects items with equal key fields; errors show the whole item.
pub(super) fn validate_unique(
    items: &[Value],
    keys: &[&str],
    ty: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let key = |item: &'_ Value| keys.iter().map(|key| item.at(key).clone()).collect::<Vec<_>>();
    let repeated = field_checks::duplicate_flags(items.iter().map(key));
    for (index, item) in items.iter().enumerate() {
        if repeated[index] {
            errors.push(Error::duplicate(
                &at.index(index),
                go_values::wire_value("resource", ty, item),
            ));
        }
    }
}

/// A list of strings within its limit and without duplicates.
pub(super) fn validate_set(tree: &Value, name: &str, max: usize, at: &Path<'_>, errors: &mut ErrorList) {
    let items = tree.items(name);
    let field_path = at.child(name);
    if !validate_max_items(items, max, &field_path, errors) {
        return;
    }
    let repeated = field_checks::duplicate_flags(items);
    for (index, item) in items.iter().enumerate() {
        if repeated[index] {
            let value = BadValue::Text(item.as_str().unwrap_or_default().to_owned());
            errors.push(Error::duplicate(&field_path.index(index), value));
        }
    }
}

/// A required string that must be one of `supported`.
pub(super) fn validate_required_enum(
    tree: &Value,
    name: &str,
    supported: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    match tree.text(name) {
        "" => errors.push(Error::required(&at.child(name), "")),
        value => field_checks::validate_supported(value, supported, &at.child(name), errors),
    }
}

/// A string that must be one of `supported` if it is set.
pub(super) fn validate_optional_enum(
    tree: &Value,
    name: &str,
    supported: &[&str],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    match tree.text(name) {
        "" => {}
        value => field_checks::validate_supported(value, supported, &at.child(name), errors),
    }
}
