//! The kinds of the `apiextensions.k8s.io` group.
//!
//! A definition is judged in the form in which upstream keeps it: what all its versions have in common stands once,
//! beside the versions, and errors name that place. [`form`] makes that form.

mod approval;
mod bundle;
mod conversion;
mod defaults;
mod definition;
mod expressions;
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
mod stored;
mod structural;
mod version;

pub(crate) use self::regexp::msg as go_regexp_fault;
pub use self::{approval::state as approval, bundle::is_bad as is_bad_bundle};
use serde_json::Value;

use crate::{
    field::{self, Error, Path},
    rules::{Errors, Rules, Tree},
};

/// The strategy of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    (kind == "CustomResourceDefinition").then_some(&definition::CustomResourceDefinition as &dyn Rules)
}

/// What the condition `NonStructuralSchema` of a definition tells; `None` if its schemas are structural.
pub fn structural_problems(crd: &Value) -> Option<String> {
    let spec = crd.at("spec");
    let spec_at = Path::new("spec");
    let mut errors = Errors::new();
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
        if let Some(msg) = schema::unsupported(schema) {
            let name = version.text("name");
            return Some(format!(
                "failed to check validation schema for version {name}: {msg}"
            ));
        }
        let at = versions_at.index(index);
        let at = at.child("schema");
        errors.extend(structural::validate(
            schema,
            &stored::Stored::default(),
            &at.child("openAPIV3Schema"),
        ));
    }
    field::aggregate(&errors)
}

/// Where a path that a rule names leads, as errors write it; `None` if it leads nowhere.
pub(crate) fn resolve_field_path(path: &str, schema: &Value) -> Option<String> {
    field_path::resolve(path, schema, true)
        .ok()
        .map(|found| found.path)
}
