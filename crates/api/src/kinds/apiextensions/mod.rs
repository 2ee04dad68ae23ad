//! The kinds of the `apiextensions.k8s.io` group.
//!
//! Upstream validates the internal form of a definition: fields that all versions share are hoisted to the top level, and errors
//! name them there. [`internal_spec`] builds that form.

mod approval;
mod ca_bundle;
mod conversion;
mod custom_resource_definition;
mod defaults;
mod error_values;
mod expressions;
mod field_path;
mod format;
mod go_struct;
mod internal_spec;
mod names;
mod openapi;
mod regexp;
mod schema;
mod spec;
mod stored_definition;
mod structural;
mod version;

use self::field_path::FieldPathSyntax;
pub(crate) use self::regexp::{GoRegexpError, go_regexp_error};
pub use self::{approval::get_api_approval_state, ca_bundle::is_invalid_ca_bundle};
use serde_json::Value;

use crate::{
    field::{self, Error, Path},
    strategy::{ErrorList, RestStrategy, Tree},
};

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    (kind == "CustomResourceDefinition")
        .then_some(&custom_resource_definition::CustomResourceDefinition as &dyn RestStrategy)
}

/// The message of the condition `NonStructuralSchema`; `None` if all schemas are structural.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/controller/nonstructuralschema/nonstructuralschema_controller.go calculateCondition
pub fn non_structural_schema_message(crd: &Value) -> Option<String> {
    let spec = crd.at("spec");
    let spec_at = Path::new("spec");
    let mut errors = ErrorList::new();
    if spec.flag("preserveUnknownFields") {
        let at = spec_at.child("preserveUnknownFields");
        errors.push(Error::invalid(
            &at,
            spec.at("preserveUnknownFields"),
            "must be false",
        ));
    }
    let versions_at = spec_at.child("versions");
    for (index, version) in spec.items("versions").iter().enumerate() {
        let schema = version.at("schema").at("openAPIV3Schema");
        if schema.is_null() {
            continue;
        }
        if let Some(msg) = schema::unsupported_fields_message(schema) {
            let name = version.text("name");
            return Some(format!(
                "failed to check validation schema for version {name}: {msg}"
            ));
        }
        let at = versions_at.index(index);
        let at = at.child("schema");
        errors.extend(structural::validate_structural(
            schema,
            &stored_definition::StoredDefinition::default(),
            &at.child("openAPIV3Schema"),
        ));
    }
    field::aggregate(&errors)
}

/// The path of a validation rule's `fieldPath` as errors write it; `None` if it is invalid.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go ValidFieldPath
pub(crate) fn resolve_field_path(path: &str, schema: &Value) -> Option<String> {
    // Brackets are allowed in validation rules.
    field_path::resolve(path, schema, FieldPathSyntax::DotsAndBrackets)
        .ok()
        .map(|found| found.path)
}
