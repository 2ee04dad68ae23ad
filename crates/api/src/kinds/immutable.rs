//! Fields that cannot change once an object exists.

use serde_json::Value;

use super::label_selector;
use crate::{
    field::{Error, Path},
    strategy::{ErrorList, Tree},
};

/// How a change of such a field is told.
pub(super) const IMMUTABLE: &str = "field is immutable";

/// Fields that must be as they were, in this order.
pub(super) fn unchanged(new: &Value, old: &Value, names: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    for name in names {
        if new.at(name) != old.at(name) {
            errors.push(Error::invalid(&at.child(name), new.at(name), IMMUTABLE));
        }
    }
}

/// A label selector, which must be as it was.
pub(super) fn selector(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let name = "selector";
    if new.at(name) != old.at(name) {
        errors.push(Error::invalid(
            &at.child(name),
            label_selector::shown(new.at(name)),
            IMMUTABLE,
        ));
    }
}
