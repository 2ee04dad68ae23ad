//! DeviceClass: a named selection of devices with driver configuration.

use serde_json::Value;

use super::{
    configuration::{self, MAX_CONFIGURATIONS, ValidatedItem},
    declarative,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, named_row},
    time::Time,
};

pub(super) struct DeviceClass;

// upstream: pkg/registry/resource/deviceclass/strategy.go deviceClassStrategy
impl RestStrategy for DeviceClass {
    // upstream: pkg/apis/resource/validation/validation.go ValidateDeviceClass
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_device_class_spec(object.at("spec"), &Value::Null, errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateDeviceClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_device_class_spec(new.at("spec"), old.at("spec"), errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::name(), Column::age()];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printDeviceClass
    fn row(&self, object: &Value, now: Time) -> Row {
        named_row(object, now, [])
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceClassSpec
fn validate_device_class_spec(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    let age = |name: &str| {
        if !old.is_null() && spec.at(name) == old.at(name) {
            ValidatedItem::Stored
        } else {
            ValidatedItem::New
        }
    };
    configuration::validate_selectors(spec, age("selectors"), &at, errors);
    let configurations = spec.items("config");
    let field_path = at.child("config");
    if configurations.len() <= MAX_CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            configuration::validate_device_configuration(
                one,
                age("config"),
                &field_path.index(index),
                errors,
            );
        }
    }
    configuration::validate_declaratively_selectors(spec, &at, errors);
    if declarative::validate_max_items(configurations, MAX_CONFIGURATIONS, &field_path, errors) {
        for (index, one) in configurations.iter().enumerate() {
            configuration::validate_declaratively_configuration(one, &field_path.index(index), errors);
        }
    }
    if let Some(resource) = spec.at("extendedResourceName").as_str() {
        validate_extended_resource_name(resource, &at.child("extendedResourceName"), errors);
    }
}

/// An extended resource name, which must leave room for the quota prefix.
// upstream: pkg/apis/resource/validation/validation.go validateDeviceClassSpec
fn validate_extended_resource_name(resource: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !resource.contains('/') {
        let detail = "a name must be a domain-prefixed path, such as 'example.com/my-prop'";
        errors.push(Error::invalid(at, resource, detail));
    } else if resource.contains("kubernetes.io/") {
        let detail = "must not have \"kubernetes.io/\" domain";
        errors.push(Error::invalid(at, resource, detail));
    }
    if resource.starts_with("requests.") {
        let detail = "must not have \"requests.\" prefix";
        errors.push(Error::invalid(at, resource, detail));
    }
    let msgs = name::validate_label_key(&format!("requests.{resource}"));
    field_checks::push_invalid(resource, msgs, at, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rejects_invalid_selectors_and_parameters() {
        let spec = json!({
            "selectors": [{}],
            "config": [{}, {"opaque": {"driver": "d", "parameters": [1]}}],
            "extendedResourceName": "x",
        });
        let mut errors = ErrorList::new();
        validate_device_class_spec(&spec, &Value::Null, &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "spec.selectors[0].cel: Required value",
                "spec.config[0].opaque: Required value",
                "spec.config[1].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
                "spec.extendedResourceName: Invalid value: \"x\": a name must be a domain-prefixed path, such as 'example.com/my-prop'",
            ]
        );
    }
}
