//! What rules ask of single fields again and again: that they are there, well named, in bounds, unchanged.
//!
//! Nothing is allocated unless there is something to tell.

use std::{borrow::Cow, collections::HashSet, hash::Hash};

use serde_json::Value;

use super::printed;
use crate::{
    field::{Error, Path},
    name::{self, ErrorMessages},
    quantity::Quantity,
    strategy::{ErrorList, Tree},
};

/// What is told of a field that cannot change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Each of these fields must be a text that is not empty.
pub(crate) fn required(tree: &Value, names: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    for name in names {
        if tree.text(name).is_empty() {
            errors.push(Error::required(&at.child(name), ""));
        }
    }
}

/// Tells each fault that a rule for names found.
pub(crate) fn tell(value: &str, faults: ErrorMessages, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(faults.into_iter().map(|fault| Error::invalid(at, value, fault)));
}

/// A label of a domain name.
pub(crate) fn label(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    tell(value, name::validate_dns1123_label(value), at, errors);
}

/// A domain name.
pub(crate) fn subdomain(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    tell(value, name::validate_dns1123_subdomain(value), at, errors);
}

/// A qualified name.
pub(crate) fn qualified(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    tell(value, name::validate_label_key(value), at, errors);
}

/// A text in lower case; most are already.
pub(crate) fn lowered(value: &str) -> Cow<'_, str> {
    if value.chars().any(char::is_uppercase) {
        Cow::Owned(value.to_lowercase())
    } else {
        Cow::Borrowed(value)
    }
}

/// A domain name in any case.
pub(crate) fn caseless_subdomain(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    const ANY_CASE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start \
        and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    for fault in name::validate_dns1123_subdomain(&lowered(value)) {
        let fault = if fault.starts_with("a lowercase") {
            ANY_CASE.to_owned()
        } else {
            fault
        };
        errors.push(Error::invalid(at, value, fault));
    }
}

/// A number that is there lies between two others, both included.
pub(crate) fn range(tree: &Value, name: &str, low: i64, high: i64, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(number) = tree.int(name) {
        for fault in name::validate_in_range(number, low, high) {
            errors.push(Error::invalid(&at.child(name), number, fault));
        }
    }
}

/// A text that is there is one of a few.
pub(crate) fn one_of(value: &str, supported: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if !supported.contains(&value) {
        errors.push(Error::not_supported(at, value, supported));
    }
}

/// A word that must be one of a few. An empty one is missing.
pub(crate) fn choice(word: &str, words: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if word.is_empty() {
        errors.push(Error::required(at, ""));
    } else if !words.contains(&word) {
        errors.push(Error::not_supported(at, printed::word(word), words));
    }
}

/// The protocol of a port.
pub(crate) fn protocol(word: &str, at: &Path<'_>, errors: &mut ErrorList) {
    choice(word, &["SCTP", "TCP", "UDP"], at, errors);
}

/// The number of a port.
pub(crate) fn validate_port_number(number: i64, at: &Path<'_>, errors: &mut ErrorList) {
    let faults = name::validate_port_number(number).into_iter();
    errors.extend(faults.map(|fault| Error::invalid(at, number, fault)));
}

/// A field that can stand in a path, if it is not empty.
pub(crate) fn path_segment(tree: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let value = tree.text(name);
    if !value.is_empty() {
        tell(value, name::validate_path_segment_name(value), &at.child(name), errors);
    }
}

/// A value stays as it was; the error does not show what it should become.
pub(crate) fn immutable(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if new != old {
        errors.push(Error::invalid(at, Value::Null, IMMUTABLE));
    }
}

/// A value stays as it was.
pub(crate) fn unchanged(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if new != old {
        errors.push(Error::invalid(at, new, IMMUTABLE));
    }
}

/// Which items of a list stand in it before.
pub(crate) fn repeated<T: Eq + Hash>(items: impl IntoIterator<Item = T>) -> Vec<bool> {
    let mut seen = HashSet::new();
    items.into_iter().map(|item| !seen.insert(item)).collect()
}

/// The amount a field tells; zero if it tells none.
pub(crate) fn amount(value: &Value) -> Quantity {
    Quantity::from_value(value).unwrap_or_else(|_| Quantity::zero())
}
