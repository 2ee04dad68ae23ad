//! Device classes: which devices go by a name, and what their drivers are told.

use serde_json::Value;

use super::{
    configuration::{self, Age, CONFIGURATIONS},
    declared,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    rules::{Circumstances, Column, Errors, Row, Rules, Tree, named_row},
    time::Time,
};

pub(super) struct DeviceClass;

// upstream: pkg/registry/resource/deviceclass/strategy.go deviceClassStrategy
impl Rules for DeviceClass {
    // upstream: pkg/apis/resource/validation/validation.go ValidateDeviceClass
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object.at("spec"), &Value::Null, errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateDeviceClassUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(new.at("spec"), old.at("spec"), errors);
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

fn validate(spec: &Value, old: &Value, errors: &mut Errors) {
    let at = Path::new("spec");
    let age = |name: &str| {
        if !old.is_null() && spec.at(name) == old.at(name) {
            Age::Stored
        } else {
            Age::New
        }
    };
    configuration::judge_selectors(spec, age("selectors"), &at, errors);
    let configurations = spec.items("config");
    let field_path = at.child("config");
    if configurations.len() <= CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            configuration::judge(one, age("config"), &field_path.index(index), errors);
        }
    }
    configuration::declared_selectors(spec, &at, errors);
    if declared::few(configurations, CONFIGURATIONS, &field_path, errors) {
        for (index, one) in configurations.iter().enumerate() {
            configuration::declared(one, &field_path.index(index), errors);
        }
    }
    if let Some(resource) = spec.at("extendedResourceName").as_str() {
        extended_resource(resource, &at.child("extendedResourceName"), errors);
    }
}

/// The name of a resource beside those the cluster knows, which must leave room for that of its quota.
fn extended_resource(resource: &str, at: &Path<'_>, errors: &mut Errors) {
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
    let msgs = name::label_key(&format!("requests.{resource}"));
    field_checks::push_invalid(resource, msgs, at, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_class_selects_by_expressions_and_tells_drivers_objects() {
        let spec = json!({
            "selectors": [{}],
            "config": [{}, {"opaque": {"driver": "d", "parameters": [1]}}],
            "extendedResourceName": "x",
        });
        let mut errors = Errors::new();
        validate(&spec, &Value::Null, &mut errors);
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
