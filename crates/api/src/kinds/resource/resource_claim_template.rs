//! ResourceClaimTemplate: the template of claims that are created per pod.

use serde_json::Value;

use super::claim;
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{core::persistent_volume_claim::validate_template_metadata, field_checks, go_values},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct ResourceClaimTemplate;

// upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go resourceClaimTemplateStrategy
impl RestStrategy for ResourceClaimTemplate {
    fn set_defaults(&self, object: &mut Value) {
        let spec = object.at_mut("spec").and_then(|spec| spec.at_mut("spec"));
        if let Some(spec) = spec {
            claim::set_defaults_claim_spec(spec);
        }
    }

    // upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        claim::drop_disabled_fields(object.ensure_object("spec").ensure_object("spec"), &Value::Null);
    }

    // upstream: pkg/registry/resource/resourceclaimtemplate/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        claim::drop_disabled_fields(
            new.ensure_object("spec").ensure_object("spec"),
            old.at_path("spec.spec"),
        );
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimTemplate
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        let at = Path::new("spec");
        validate_template_metadata(spec.at("metadata"), &at.child("metadata"), errors);
        claim::validate_claim_spec(spec.at("spec"), &at.child("spec"), errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceClaimTemplateUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate(new, at, errors);
        if new.at("spec") != old.at("spec") {
            errors.push(Error::invalid(
                &Path::new("spec"),
                spec_value(new.at("spec")),
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

/// A spec as the value of an error: metadata is inlined, and the internal type has no JSON tags.
fn spec_value(spec: &Value) -> BadValue {
    let metadata: Vec<_> = ["labels", "annotations"]
        .into_iter()
        .filter(|name| spec.at("metadata").has(name))
        .map(|name| format!("\"{name}\":{},", go::json(spec.at("metadata").at(name))))
        .collect();
    let metadata = metadata.concat();
    let claim = go_values::internal_json("resource", "ResourceClaimSpec", spec.at("spec"));
    BadValue::Printed(format!("{{{metadata}\"Spec\":{claim}}}"))
}
