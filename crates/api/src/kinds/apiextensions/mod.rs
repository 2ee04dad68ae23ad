//! The kinds of the `apiextensions.k8s.io` group.
//!
//! A definition is judged in the form in which upstream keeps it: what all its versions have in common stands once,
//! beside the versions, and errors name that place. [`form`] makes that form.

mod approval;
mod bundle;
mod conversion;
mod defaults;
mod definition;
mod field_path;
mod form;
mod format;
mod internal;
mod names;
mod openapi;
mod printed;
mod regexp;
mod schema;
mod spec;
mod structural;
mod version;

pub(crate) use self::regexp::fault as go_regexp_fault;
use crate::rules::Rules;

/// The rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    (kind == "CustomResourceDefinition").then_some(&definition::CustomResourceDefinition as &dyn Rules)
}
