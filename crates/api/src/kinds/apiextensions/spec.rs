//! Spec of a CustomResourceDefinition.

use serde_json::{Value, json};

use super::{
    conversion::{self, ConversionValidationOptions},
    error_values,
    expressions::CostCheck,
    internal_spec::InternalSpec,
    names, openapi, schema,
    stored_definition::StoredDefinition,
    version,
};
use crate::{
    field::{BadValue, Error, Path},
    kinds::field_checks,
    name,
    strategy::{ErrorList, Tree},
};

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionSpec
pub(super) fn validate_definition_spec(
    spec: &Value,
    old: Option<&Value>,
    options: ConversionValidationOptions,
    errors: &mut ErrorList,
) {
    let at = Path::new("spec");
    let internal = InternalSpec::from_spec(spec);
    let stored = StoredDefinition::from_old(old);
    validate_group(spec.text("group"), &at.child("group"), errors);
    match spec.text("scope") {
        "" => errors.push(Error::required(&at.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        scope => errors.push(Error::not_supported(
            &at.child("scope"),
            scope,
            ["Cluster", "Namespaced"],
        )),
    }
    let versions_at = at.child("versions");
    if !internal.common.schema.has("openAPIV3Schema") {
        for (index, version) in internal.versions.iter().enumerate() {
            if !version.own.schema.has("openAPIV3Schema") {
                let field_path = versions_at.index(index);
                errors.push(Error::required(
                    &field_path.child("schema").child("openAPIV3Schema"),
                    "",
                ));
            }
        }
    }
    let preserves = spec.flag("preserveUnknownFields");
    if preserves && has_defaults(&internal) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(
            &at.child("preserveUnknownFields"),
            json!(true),
            detail,
        ));
    }
    validate_versions(&internal, &stored, &versions_at, errors);
    validate_names(spec.at("names"), &at.child("names"), errors);
    let field_path = at.child("validation");
    let first = internal
        .versions
        .first()
        .map_or("", |version| version.whole.text("name"));
    let costs = CostCheck::for_version(internal.common.schema, &stored, first);
    openapi::validate_schema(
        internal.common.schema,
        internal.status_of_any_version(),
        (costs, &stored),
        &field_path,
        errors,
    );
    version::validate_subresources(internal.common.subresources, &at.child("subresources"), errors);
    version::validate_columns(
        internal.common.columns,
        &at.child("additionalPrinterColumns"),
        errors,
    );
    validate_selectable_fields(&internal, old, &at, errors);
    let conversion = spec.at("conversion");
    if preserves && !conversion.is_null() && conversion.text("strategy") != "None" {
        let field_path = at.child("conversion");
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(
            &field_path.child("strategy"),
            conversion.text("strategy"),
            detail,
        ));
    }
    conversion::validate_conversion(conversion, options, &at.child("conversion"), errors);
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go specHasDefaults
fn has_defaults(internal: &InternalSpec<'_>) -> bool {
    internal
        .schemas()
        .any(|whole| schema::schema_has(whole, &mut |one| one.has("default")))
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionSpec
fn validate_group(group: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if group.is_empty() {
        errors.push(Error::required(at, ""));
        return;
    }
    let msgs = name::validate_dns1123_subdomain(group);
    if !msgs.is_empty() {
        errors.push(Error::invalid(at, group, msgs.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(
            at,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionSpec
fn validate_versions(
    internal: &InternalSpec<'_>,
    stored: &StoredDefinition<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let names: Vec<_> = internal
        .versions
        .iter()
        .map(|version| version.whole.text("name"))
        .collect();
    for (index, version) in internal.versions.iter().enumerate() {
        let field_path = at.index(index);
        names::validate_label(names[index], names[index], "", &field_path.child("name"), errors);
        let status = internal.status_of_version(version);
        version::validate_version(version, status, stored, &field_path, errors);
    }
    let versions_value = || BadValue::Printed(error_values::versions_json(&internal.versions_value()));
    if field_checks::duplicate_flags(&names).contains(&true) {
        errors.push(Error::invalid(
            at,
            versions_value(),
            "must contain unique version names",
        ));
    }
    let stored = internal
        .versions
        .iter()
        .filter(|version| version.whole.flag("storage"));
    if stored.count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(at, versions_value(), detail));
    }
    if let Some(first) = names.first().filter(|first| !first.is_empty()) {
        // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionSpec; errors of the first version repeat at the deprecated field spec.version
        let spec = Path::new("spec");
        names::validate_label(first, first, "", &spec.child("version"), errors);
    }
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go validateCustomResourceDefinitionSpec
fn validate_names(names: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if names.text(field).is_empty() {
            errors.push(Error::required(&at.child(field), ""));
        }
    }
    names::validate_names(names, at, errors);
}

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go ValidateCustomResourceSelectableFields
fn validate_selectable_fields(
    internal: &InternalSpec<'_>,
    old: Option<&Value>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let fields = internal.common.selectable;
    if fields.as_array().is_none_or(Vec::is_empty) {
        return;
    }
    let field_path = at.child("selectableFields");
    if internal.common.schema.is_null() {
        let detail = "may only be set when validations.schema is included";
        errors.push(Error::invalid(&field_path, "", detail));
        return;
    }
    let schema = internal.common.schema.at("openAPIV3Schema");
    let before = old.map(|old| InternalSpec::from_spec(old).common.selectable.clone());
    version::validate_selectable_fields(fields, schema, before.as_ref(), at, errors);
}
