//! Versions of a CustomResourceDefinition: subresources, printer columns, selectable fields.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    expressions::CostCheck,
    field_path::{self, FieldPathSyntax},
    internal_spec::{StatusSubresource, StoredVersion},
    openapi, schema,
    stored_definition::StoredDefinition,
};
use crate::{
    field::{Error, Path},
    go,
    strategy::{ErrorList, Tree},
};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
const MAX_SELECTABLE_FIELDS: usize = 8;
const MAX_WARNING_LENGTH: usize = 256;

/// Validates a version except its name.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionVersion
pub(super) fn validate_version(
    version: &StoredVersion<'_>,
    status: StatusSubresource,
    stored: &StoredDefinition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_deprecation_warning(version.whole, &at.child("deprecationWarning"), errors);
    let costs = CostCheck::for_version(version.own.schema, stored, version.whole.text("name"));
    openapi::validate_schema(
        version.own.schema,
        status,
        (costs, stored),
        &at.child("schema"),
        errors,
    );
    validate_subresources(version.own.subresources, &at.child("subresources"), errors);
    validate_columns(version.own.columns, &at.child("additionalPrinterColumns"), errors);
    let fields = version.own.selectable;
    if fields.as_array().is_none_or(Vec::is_empty) {
        return;
    }
    let schema = version.own.schema.at("openAPIV3Schema");
    if schema.is_null() {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.push(Error::invalid(&at.child("selectableFields"), "", detail));
        return;
    }
    let name = version.whole.text("name");
    let before = stored.version(name);
    let before = before.map(|version| version.at("selectableFields"));
    validate_selectable_fields(fields, schema, before, at, errors);
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateDeprecationWarning
fn validate_deprecation_warning(version: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if !version.has("deprecationWarning") {
        return;
    }
    let warning = version.text("deprecationWarning");
    let mut push = |detail: String| errors.push(Error::invalid(at, warning, detail));
    if !version.flag("deprecated") {
        push("can only be set for deprecated versions".to_owned());
        return;
    }
    if warning.len() > MAX_WARNING_LENGTH {
        push(format!("must be <= {MAX_WARNING_LENGTH} characters long"));
    }
    if warning.is_empty() {
        push("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| !go::is_print(*c)) {
        push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// Validates the paths of the scale subresource.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceDefinitionSubresources
pub(super) fn validate_subresources(subresources: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let scale = subresources.at("scale");
    if scale.is_null() {
        return;
    }
    let at = at.child("scale");
    for (field, under) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let field_path = at.child(field);
        let path = scale.text(field);
        if path.is_empty() {
            errors.push(Error::required(&field_path, ""));
        } else if validate_simple_json_path(path, &field_path, errors) && !is_under(path, under) {
            let detail = format!("should be a json path under {under}");
            errors.push(Error::invalid(&field_path, path, detail));
        }
    }
    let field_path = at.child("labelSelectorPath");
    let path = scale.text("labelSelectorPath");
    if !path.is_empty()
        && validate_simple_json_path(path, &field_path, errors)
        && !is_under(path, ".spec")
        && !is_under(path, ".status")
    {
        let detail = "should be a json path under either .spec or .status";
        errors.push(Error::invalid(&field_path, json!(path), detail));
    }
}

fn is_under(path: &str, holder: &str) -> bool {
    path.strip_prefix(holder)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Whether it is a simple JSON path; reports an error if not.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateSimpleJSONPath
fn validate_simple_json_path(path: &str, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        let detail = "must be a simple json path starting with .";
        errors.push(Error::invalid(at, path, detail));
    }
    simple
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceColumnDefinition
pub(super) fn validate_columns(columns: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let field_path = at.index(index);
        if column.text("name").is_empty() {
            errors.push(Error::required(&field_path.child("name"), ""));
        }
        let types = || format!("must be one of {}", COLUMN_TYPES.join(","));
        match column.text("type") {
            "" => errors.push(Error::required(&field_path.child("type"), types())),
            kind if COLUMN_TYPES.contains(&kind) => {}
            kind => errors.push(Error::invalid(&field_path.child("type"), kind, types())),
        }
        let format = column.text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(&field_path.child("format"), format, detail));
        }
        let path_at = field_path.child("JSONPath");
        match column.text("jsonPath") {
            "" => errors.push(Error::required(&path_at, "")),
            path => {
                validate_simple_json_path(path, &path_at, errors);
            }
        }
    }
}

/// Validates selectable fields (KEP-4358). An excessive number is tolerated if it is unchanged.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceSelectableFields, findTooManySelectableFieldsAllowed
pub(super) fn validate_selectable_fields(
    fields: &Value,
    schema: &Value,
    old: Option<&Value>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(msg) = schema::unsupported_fields_message(schema) {
        errors.push(Error::invalid(&at.child("schema.openAPIV3Schema"), "", msg));
        return;
    }
    let at = at.child("selectableFields");
    let mut paths: HashSet<String> = HashSet::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let field_path = at.index(index);
        let field_path = field_path.child("jsonPath");
        let text = field.text("jsonPath");
        if text.is_empty() {
            errors.push(Error::required(&field_path, ""));
            continue;
        }
        let resolved = match field_path::resolve(text, schema, FieldPathSyntax::Dots) {
            Ok(resolved) => resolved,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                errors.push(Error::invalid(&field_path, text, detail));
                continue;
            }
        };
        if resolved.path == "metadata"
            || resolved.path.starts_with("metadata.")
            || resolved.path.starts_with("metadata[")
        {
            errors.push(Error::invalid(
                &field_path,
                text,
                "must not point to fields in metadata",
            ));
        }
        if !matches!(resolved.schema.text("type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                formats are allowed.";
            errors.push(Error::invalid(&field_path, text, detail));
        }
        if !paths.insert(resolved.path) {
            errors.push(Error::duplicate(&field_path, text));
        }
    }
    if paths.len() > MAX_SELECTABLE_FIELDS && old != Some(fields) {
        errors.push(Error::too_many(&at, Some(paths.len()), MAX_SELECTABLE_FIELDS));
    }
}
