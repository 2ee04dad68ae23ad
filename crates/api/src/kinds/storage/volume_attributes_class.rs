//! Volume attributes classes: what of a volume can be changed while it is in use.

use serde_json::{Value, json};

use super::parameters;
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, named_row},
    time::Time,
};

/// The rules of volume attributes classes.
pub(super) struct VolumeAttributesClass;

impl Rules for VolumeAttributesClass {
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        let driver = object.text("driverName");
        field_checks::require_fields(object, &["driverName"], &Path::NOWHERE, errors);
        if !driver.is_empty() {
            field_checks::validate_qualified_name(
                &field_checks::to_lower(driver),
                &Path::new("driverName"),
                errors,
            );
        }
        parameters::validate(object, true, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, at: &Circumstances<'_>, errors: &mut Errors) {
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

    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [json!(object.text("driverName"))])
    }
}
