//! Names of what must be done before an object goes.

use serde_json::Value;

use super::faults::tell;
use crate::{
    field::{Error, Path},
    name,
    rules::{Errors, Tree},
};

/// Names that need no domain before them.
const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with a finalizer of a namespace.
pub(in crate::kinds) fn finalizer(errors: &mut Errors, at: &Path<'_>, name: &str) {
    tell(errors, at, name, name::label_key(name));
    standard(errors, at, name);
}

/// What is wrong with the finalizers of an object beside their form: most kinds ask that a name without a domain is
/// one of the standard ones.
pub(in crate::kinds) fn of_object(errors: &mut Errors, object: &Value) {
    let metadata = Path::new("metadata");
    let place = metadata.child("finalizers");
    for (index, name) in object.at("metadata").texts("finalizers").enumerate() {
        standard(errors, &place.index(index), name);
    }
}

fn standard(errors: &mut Errors, at: &Path<'_>, name: &str) {
    if !name.contains('/') && !STANDARD.contains(&name) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(at, name, detail));
    }
}
