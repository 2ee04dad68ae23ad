//! Templates of resource claims.

use serde_json::Value;

use super::claim;
use crate::{
    field::{Error, Path, Shown},
    go,
    kinds::{core::persistent_volume_claim::validate_template_metadata, field_checks, go_values},
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ResourceClaimTemplate;

// upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go resourceClaimTemplateStrategy
impl Rules for ResourceClaimTemplate {
    fn default(&self, object: &mut Value) {
        let spec = object.at_mut("spec").and_then(|spec| spec.at_mut("spec"));
        if let Some(spec) = spec {
            claim::default(spec);
        }
    }

    // upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, _: &Circumstances<'_>) {
        claim::drop_disabled(object.make("spec").make("spec"), &Value::Null);
    }

    // upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, _: &Circumstances<'_>) {
        claim::drop_disabled(new.make("spec").make("spec"), old.way("spec.spec"));
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimTemplate
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let spec = object.at("spec");
        let at = Path::new("spec");
        validate_template_metadata(spec.at("metadata"), &at.child("metadata"), errors);
        claim::validate(spec.at("spec"), &at.child("spec"), errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimTemplateUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &Circumstances<'_>, errors: &mut Errors) {
        self.validate(new, at, errors);
        if new.at("spec") != old.at("spec") {
            errors.push(Error::invalid(
                &Path::new("spec"),
                shown(new.at("spec")),
                field_checks::IMMUTABLE,
            ));
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::name(), Column::age()];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printResourceClaimTemplate
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [])
    }
}

/// A spec as errors show it: the metadata stand inline.
fn shown(spec: &Value) -> Shown {
    let metadata: Vec<_> = ["labels", "annotations"]
        .into_iter()
        .filter(|name| spec.at("metadata").has(name))
        .map(|name| format!("\"{name}\":{},", go::json(spec.at("metadata").at(name))))
        .collect();
    let metadata = metadata.concat();
    let claim = go_values::internal_json("resource", "ResourceClaimSpec", spec.at("spec"));
    Shown::Printed(format!("{{{metadata}\"Spec\":{claim}}}"))
}
