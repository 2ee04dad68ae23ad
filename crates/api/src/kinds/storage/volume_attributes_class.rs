//! VolumeAttributesClass: mutable attributes of volumes (KEP-3751).

use serde_json::{Value, json};

use super::parameters;
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

pub(super) struct VolumeAttributesClass;

// upstream: pkg/registry/storage/volumeattributesclass/strategy.go volumeAttributesClassStrategy
impl RestStrategy for VolumeAttributesClass {
    // upstream: pkg/apis/storage/validation/validation.go ValidateVolumeAttributesClass
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let driver = object.text("driverName");
        field_checks::require_fields(object, &["driverName"], &Path::NIL, errors);
        if !driver.is_empty() {
            field_checks::validate_qualified_name(
                &field_checks::to_lower(driver),
                &Path::new("driverName"),
                errors,
            );
        }
        parameters::validate_required_parameters(object, errors);
    }

    // upstream: pkg/apis/storage/validation/validation.go ValidateVolumeAttributesClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, at: &StrategyContext<'_>, errors: &mut ErrorList) {
        for name in ["driverName", "parameters"] {
            if new.at(name) != old.at(name) {
                let detail = format!("updates to {name} are forbidden.");
                errors.push(Error::forbidden(&Path::new(name), detail));
            }
        }
        self.validate(new, at, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("DriverName", "driverName"),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printVolumeAttributesClass
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.text("driverName"))])
    }
}
