//! DeviceTaintRule: taints that an administrator puts on devices (KEP-5055).

use serde_json::{Value, json};

use super::{names, taint};
use crate::{
    field::{Error, Path},
    kinds::{condition, core::volume::source::validate_csi_driver_name, field_checks, status_meta},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, age, named_row},
    time::Time,
};

const MAX_CONDITIONS: usize = 8;

pub(super) struct DeviceTaintRule;

// upstream: pkg/registry/resource/devicetaintrule/strategy.go deviceTaintRuleStrategy
impl RestStrategy for DeviceTaintRule {
    // upstream: pkg/registry/resource/devicetaintrule/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        object.set("status", json!({}));
        taint::set_time_added(object.ensure_object("spec").ensure_object("taint"), at.now);
    }

    /// `timeAdded` is set when the effect changes, unless the client sets it.
    // upstream: pkg/registry/resource/devicetaintrule/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        new.copy_from("status", old);
        let before = old.at_path("spec.taint");
        let taint = new.ensure_object("spec").ensure_object("taint");
        taint::set_time_added(taint, at.now);
        if taint.at("effect") != before.at("effect") && taint.at("timeAdded") == before.at("timeAdded") {
            taint.set("timeAdded", at.now.truncated().to_string());
        }
    }

    // upstream: pkg/registry/resource/devicetaintrule/strategy.go deviceTaintRuleStatusStrategy
    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        status_meta::reset_object_meta_for_status(new, old);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateDeviceTaintRule
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_device_taint_rule_spec(object.at("spec"), errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateDeviceTaintRuleStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let at = Path::new("status");
        let field_path = at.child("conditions");
        let conditions = new.at("status").items("conditions");
        condition::validate_conditions(conditions, &field_path, errors);
        if conditions.len() > MAX_CONDITIONS {
            errors.push(Error::too_many(
                &field_path,
                Some(conditions.len()),
                MAX_CONDITIONS,
            ));
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    // upstream: pkg/registry/resource/devicetaintrule/strategy.go AllowUnconditionalUpdate
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("Key", "spec.taint.key"),
            Column::field("Value", "spec.taint.value"),
            Column::field("Effect", "spec.taint.effect"),
            Column::field("TimeAdded", "spec.taint.timeAdded"),
            Column::age(),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Time) -> Row {
        let taint = object.at_path("spec.taint");
        let added = match taint.at("timeAdded").as_str() {
            Some(added) => age(added, now),
            None => json!(""),
        };
        named_row(
            object,
            now,
            [
                json!(taint.text("key")),
                json!(taint.text("value")),
                json!(taint.text("effect")),
                added,
            ],
        )
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceTaintRuleSpec, validateDeviceTaintSelector
fn validate_device_taint_rule_spec(spec: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let selector = spec.at("deviceSelector");
    let field_path = at.child("deviceSelector");
    if let Some(driver) = selector.at("driver").as_str() {
        validate_csi_driver_name(driver, &field_path.child("driver"), errors);
    }
    if let Some(pool) = selector.at("pool").as_str() {
        names::validate_pool_name(pool, &field_path.child("pool"), errors);
    }
    if let Some(device) = selector.at("device").as_str() {
        field_checks::validate_dns1123_label(device, &field_path.child("device"), errors);
    }
    let taint = spec.at("taint");
    let field_path = at.child("taint");
    taint::validate_device_taint(taint, &field_path, errors);
    taint::validate_declaratively_taint(taint, &field_path, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requires_key_and_effect() {
        let mut errors = ErrorList::new();
        validate_device_taint_rule_spec(
            &json!({"deviceSelector": {"pool": ""}, "taint": {"key": "k", "effect": ""}}),
            &mut errors,
        );
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "spec.deviceSelector.pool: Required value",
                "spec.taint.effect: Required value",
            ]
        );
    }

    #[test]
    fn row_shows_the_taint_and_its_age() {
        let rule = json!({
            "metadata": {"name": "r", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:01:00Z"}},
        });
        let now = Time::parse("2026-01-01T00:02:00Z").unwrap();
        assert_eq!(
            Value::Array(DeviceTaintRule.row(&rule, now).cells),
            json!(["r", "k", "v", "NoExecute", "60s", "2m"])
        );
    }
}
