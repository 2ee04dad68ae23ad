//! What rules ask of single fields again and again, told in the words all kinds share.

use serde_json::Value;

use super::printed;
use crate::{
    field::{Error, Path, Shown},
    name::{self, Faults},
    rules::{Errors, Tree},
};

/// What is told of a field that cannot change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Tells each fault that a rule for names found.
pub(crate) fn tell(value: &str, faults: Faults, at: &Path<'_>, errors: &mut Errors) {
    errors.extend(faults.into_iter().map(|fault| Error::invalid(at, value, fault)));
}

/// A word that must be one of a few. An empty one is missing.
pub(crate) fn one_of(word: &str, words: &[&str], at: &Path<'_>, errors: &mut Errors) {
    if word.is_empty() {
        errors.push(Error::required(at, ""));
    } else if !words.contains(&word) {
        errors.push(Error::not_supported(at, printed::word(word), words));
    }
}

/// The protocol of a port.
pub(crate) fn protocol(word: &str, at: &Path<'_>, errors: &mut Errors) {
    one_of(word, &["SCTP", "TCP", "UDP"], at, errors);
}

/// The number of a port.
pub(crate) fn port_number(number: i64, at: &Path<'_>, errors: &mut Errors) {
    let faults = name::port_number(number).into_iter();
    errors.extend(faults.map(|fault| Error::invalid(at, number, fault)));
}

/// Fields that must be texts which are not empty.
pub(crate) fn required(tree: &Value, names: &[&str], at: &Path<'_>, errors: &mut Errors) {
    for name in names {
        if tree.text(name).is_empty() {
            errors.push(Error::required(&at.child(name), ""));
        }
    }
}

/// A field that can stand in a path, if it is not empty.
pub(crate) fn path_segment(tree: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    let value = tree.text(name);
    if !value.is_empty() {
        tell(value, name::path_segment_name(value), &at.child(name), errors);
    }
}

/// A change of a field that cannot change, told without the value.
pub(crate) fn unchanged(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    if new != old {
        errors.push(Error::invalid(at, Shown::Json(Value::Null), IMMUTABLE));
    }
}
