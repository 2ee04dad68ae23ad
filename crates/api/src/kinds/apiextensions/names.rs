//! The names of a defined kind.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    name,
    rules::{Errors, Tree},
};

/// What is wrong with names, where they are given.
pub(super) fn validate(names: &Value, at: &Path<'_>, errors: &mut Errors) {
    for field in ["plural", "singular"] {
        let text = names.text(field);
        if !text.is_empty() {
            label(text, text, "", &at.child(field), errors);
        }
    }
    for field in ["kind", "listKind"] {
        let text = names.text(field);
        if !text.is_empty() {
            let detail = "may have mixed case, but should otherwise match: ";
            label(text, &text.to_lowercase(), detail, &at.child(field), errors);
        }
    }
    list(names, "shortNames", at, errors);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&at.child("listKind"), kind, detail));
    }
    list(names, "categories", at, errors);
}

fn list(names: &Value, field: &str, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child(field);
    for (index, text) in names.texts(field).enumerate() {
        label(text, text, "", &field_path.index(index), errors);
    }
}

/// A text that is a label of a domain name in this form.
pub(super) fn label(text: &str, form: &str, before: &str, at: &Path<'_>, errors: &mut Errors) {
    let msgs = name::dns1035_label(form);
    if !msgs.is_empty() {
        errors.push(Error::invalid(at, text, format!("{before}{}", msgs.join(","))));
    }
}
