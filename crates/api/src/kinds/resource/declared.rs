//! What the types themselves declare of lists, maps and enumerations.

use serde_json::Value;

use crate::{
    field::{Error, Path, Shown},
    kinds::{field_checks, go_values},
    rules::{Errors, Tree},
};

/// Whether a list has no more items than it may; tells if it has.
pub(super) fn few(items: &[Value], most: usize, at: &Path<'_>, errors: &mut Errors) -> bool {
    if items.len() > most {
        errors.push(Error::too_many(at, Some(items.len()), most));
    }
    items.len() <= most
}

/// Items of a list are told apart by some of their fields; errors show them whole.
pub(super) fn unique(items: &[Value], keys: &[&str], ty: &str, at: &Path<'_>, errors: &mut Errors) {
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

/// A list of texts has not too many, and each once.
pub(super) fn set(tree: &Value, name: &str, most: usize, at: &Path<'_>, errors: &mut Errors) {
    let items = tree.items(name);
    let field_path = at.child(name);
    if !few(items, most, &field_path, errors) {
        return;
    }
    let repeated = field_checks::duplicate_flags(items);
    for (index, item) in items.iter().enumerate() {
        if repeated[index] {
            let shown = Shown::Text(item.as_str().unwrap_or_default().to_owned());
            errors.push(Error::duplicate(&field_path.index(index), shown));
        }
    }
}

/// A text that must be there, and be one of a few.
pub(super) fn required_of(tree: &Value, name: &str, supported: &[&str], at: &Path<'_>, errors: &mut Errors) {
    match tree.text(name) {
        "" => errors.push(Error::required(&at.child(name), "")),
        value => field_checks::validate_supported(value, supported, &at.child(name), errors),
    }
}

/// A text that is one of a few if it is there.
pub(super) fn optional_of(tree: &Value, name: &str, supported: &[&str], at: &Path<'_>, errors: &mut Errors) {
    match tree.text(name) {
        "" => {}
        value => field_checks::validate_supported(value, supported, &at.child(name), errors),
    }
}
