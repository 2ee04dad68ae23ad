//! CustomResourceDefinitionNames.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    name,
    strategy::{ErrorList, Tree},
};

/// Validates the names that are set.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionNames
pub(super) fn validate_names(names: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["plural", "singular"] {
        let text = names.text(field);
        if !text.is_empty() {
            validate_label(text, text, "", &at.child(field), errors);
        }
    }
    for field in ["kind", "listKind"] {
        let text = names.text(field);
        if !text.is_empty() {
            let detail = "may have mixed case, but should otherwise match: ";
            validate_label(text, &text.to_lowercase(), detail, &at.child(field), errors);
        }
    }
    validate_list(names, "shortNames", at, errors);
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&at.child("listKind"), kind, detail));
    }
    validate_list(names, "categories", at, errors);
}

fn validate_list(names: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child(field);
    for (index, text) in names.texts(field).enumerate() {
        validate_label(text, text, "", &field_path.index(index), errors);
    }
}

/// A text whose given form must be a DNS-1035 label.
pub(super) fn validate_label(text: &str, form: &str, before: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let msgs = name::validate_dns1035_label(form);
    if !msgs.is_empty() {
        errors.push(Error::invalid(at, text, format!("{before}{}", msgs.join(","))));
    }
}
