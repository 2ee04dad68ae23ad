//! What the status of both kinds has in common.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    field::{Error, Path},
    rules::{Errors, Tree, TreeMut},
};

/// A write of the status changes nothing but the status, and who set it.
pub(super) fn prepare(new: &mut Value, old: &Value) {
    let sent = new.at("metadata").clone();
    new.copy_from("spec", old);
    new.copy_from("metadata", old);
    new.make("metadata").copy_from("managedFields", &sent);
    new.make("metadata").copy_from("resourceVersion", &sent);
}

/// Every condition has a type of its own.
pub(super) fn validate(object: &Value, errors: &mut Errors) {
    let status = Path::new("status");
    let at = status.child("conditions");
    let conditions = object.at("status").items("conditions");
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let field_path = at.index(index);
        let field_path = field_path.child("type");
        let kind = condition.text("type");
        if !seen.insert(kind) {
            errors.push(Error::duplicate(&field_path, kind));
        }
        if kind.is_empty() {
            errors.push(Error::required(&field_path, ""));
        }
    }
}
