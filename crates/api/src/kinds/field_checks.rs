//! Checks of single fields that many kinds share: presence, name format, range, enumeration, immutability.
//!
//! Nothing is allocated unless there is an error to report.

use std::{borrow::Cow, collections::HashSet, hash::Hash};

use serde_json::Value;

use super::go_values;
use crate::{
    field::{Error, Path},
    name::{self, ErrorMessages},
    quantity::Quantity,
    strategy::{ErrorList, Tree},
};

// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateImmutableField
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Each of these fields must be a non-empty string.
pub(crate) fn require_fields(tree: &Value, names: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    for name in names {
        if tree.text(name).is_empty() {
            errors.push(Error::required(&at.child(name), ""));
        }
    }
}

/// Adds an `Invalid` error for each message of a name check.
pub(crate) fn push_invalid(value: &str, msgs: ErrorMessages, at: &Path<'_>, errors: &mut ErrorList) {
    errors.extend(msgs.into_iter().map(|msg| Error::invalid(at, value, msg)));
}

// upstream: pkg/apis/core/validation/validation.go ValidateDNS1123Label
pub(crate) fn validate_dns1123_label(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(value, name::validate_dns1123_label(value), at, errors);
}

// upstream: pkg/apis/core/validation/validation.go ValidateDNS1123Subdomain
pub(crate) fn validate_dns1123_subdomain(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(value, name::validate_dns1123_subdomain(value), at, errors);
}

// upstream: pkg/apis/core/validation/validation.go ValidateQualifiedName
pub(crate) fn validate_qualified_name(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    push_invalid(value, name::validate_label_key(value), at, errors);
}

/// The text in lower case; allocates only when it has upper case letters.
pub(crate) fn to_lower(value: &str) -> Cow<'_, str> {
    if value.chars().any(char::is_uppercase) {
        Cow::Owned(value.to_lowercase())
    } else {
        Cow::Borrowed(value)
    }
}

/// Validates a subdomain of any case. The message is upstream's for this variant.
pub(crate) fn validate_dns1123_subdomain_caseless(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    const ANY_CASE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start \
        and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    for msg in name::validate_dns1123_subdomain(&to_lower(value)) {
        let msg = if msg.starts_with("a lowercase") {
            ANY_CASE.to_owned()
        } else {
            msg
        };
        errors.push(Error::invalid(at, value, msg));
    }
}

/// An integer that is set must be within `low..=high`.
// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsInRange
pub(crate) fn validate_in_range(
    tree: &Value,
    name: &str,
    low: i64,
    high: i64,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(number) = tree.int(name) {
        for msg in name::validate_in_range(number, low, high) {
            errors.push(Error::invalid(&at.child(name), number, msg));
        }
    }
}

/// The value must be one of `supported`; an empty one is not supported.
pub(crate) fn validate_supported(value: &str, supported: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if !supported.contains(&value) {
        errors.push(Error::not_supported(at, value, supported));
    }
}

/// The value must be one of `supported`; an empty one is reported as missing.
pub(crate) fn validate_enum(value: &str, supported: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(Error::required(at, ""));
    } else if !supported.contains(&value) {
        errors.push(Error::not_supported(
            at,
            go_values::typed_string(value),
            supported,
        ));
    }
}

/// The protocol of a port: `SCTP`, `TCP` or `UDP`.
pub(crate) fn validate_protocol(value: &str, at: &Path<'_>, errors: &mut ErrorList) {
    validate_enum(value, &["SCTP", "TCP", "UDP"], at, errors);
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go IsValidPortNum
pub(crate) fn validate_port_number(number: i64, at: &Path<'_>, errors: &mut ErrorList) {
    let msgs = name::validate_port_number(number).into_iter();
    errors.extend(msgs.map(|msg| Error::invalid(at, number, msg)));
}

/// A name that is set must be usable as one segment of a URL path.
pub(crate) fn validate_path_segment_name(tree: &Value, name: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let value = tree.text(name);
    if !value.is_empty() {
        push_invalid(
            value,
            name::validate_path_segment_name(value),
            &at.child(name),
            errors,
        );
    }
}

/// Rejects a change without showing the new value, as where upstream passes a typed nil pointer.
pub(crate) fn validate_immutable_hiding_value(
    new: &Value,
    old: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if new != old {
        errors.push(Error::invalid(at, Value::Null, IMMUTABLE));
    }
}

/// Rejects a change and shows the new value.
// upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go ValidateImmutableField
pub(crate) fn validate_immutable_field(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if new != old {
        errors.push(Error::invalid(at, new, IMMUTABLE));
    }
}

/// For each item, whether an equal one precedes it.
pub(crate) fn duplicate_flags<T: Eq + Hash>(items: impl IntoIterator<Item = T>) -> Vec<bool> {
    let mut seen = HashSet::new();
    items.into_iter().map(|item| !seen.insert(item)).collect()
}

/// The quantity of a field; zero if it is absent or malformed.
pub(crate) fn quantity_or_zero(value: &Value) -> Quantity {
    Quantity::from_value(value).unwrap_or_else(|_| Quantity::zero())
}
