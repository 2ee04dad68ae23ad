//! Devices of a ResourceSlice.

use serde_json::Value;

use super::{capacity, declarative, names, taint};
use crate::{
    field::{Error, Path},
    kinds::{
        core::node_selector::{self, InvalidSelectorValues},
        field_checks,
    },
    name::NameFormat,
    strategy::{ErrorList, Tree},
};

const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
const MAX_ATTRIBUTE_VALUES: usize = 48;
const MAX_VALUE_BYTES: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_BINDING_CONDITIONS: usize = 4;
const MAX_CONSUMPTIONS: usize = 2;
/// Limit of counters in a set, and of counters that a device consumes of one.
const MAX_COUNTERS: usize = 32;
/// The fields of a DeviceAttribute, exactly one of which holds its value.
const VALUE_FIELDS: [&str; 8] = [
    "int", "bool", "string", "version", "ints", "bools", "strings", "versions",
];
const LIST_FIELDS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const BINDING_CONDITION_FIELDS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];

/// Hand-written validation of a device.
// upstream: pkg/apis/resource/validation/validation.go validateDevice
pub(super) fn validate_device(
    device: &Value,
    old: &Value,
    slice_spec: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    field_checks::validate_dns1123_label(device.text("name"), &at.child("name"), errors);
    let attributes = device.entries("attributes");
    let capacities = device.entries("capacity");
    let total = attributes.len() + capacities.len();
    if total > MAX_ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        );
        errors.push(Error::invalid(at, total, detail));
    }
    let count = |attribute: &Value| {
        let listed: usize = LIST_FIELDS.iter().map(|list| attribute.items(list).len()).sum();
        listed.max(1)
    };
    let values: usize = attributes.values().map(count).sum();
    if values > MAX_ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}");
        errors.push(Error::invalid(at, values, detail));
    }
    let field_path = at.child("attributes");
    for (key, attribute) in attributes {
        names::validate_qualified_name(key, &field_path, errors);
        validate_attribute(
            attribute,
            &field_path.key(&names::truncate_if_too_long(key, names::MAX_KEY)),
            errors,
        );
    }
    if old.is_null() || old.at("capacity") != device.at("capacity") {
        let field_path = at.child("capacity");
        for (key, one) in capacities {
            names::validate_qualified_name(key, &field_path, errors);
            capacity::validate_capacity(
                one,
                device,
                &field_path.key(&names::truncate_if_too_long(key, names::MAX_KEY)),
                errors,
            );
        }
    }
    if old.is_null() || old.at("taints") != device.at("taints") {
        let taints = device.items("taints");
        let field_path = at.child("taints");
        if declarative::validate_max_items(taints, MAX_TAINTS, &field_path, errors) {
            for (index, one) in taints.iter().enumerate() {
                taint::validate_device_taint(one, &field_path.index(index), errors);
            }
        }
    }
    let consumptions = device.items("consumesCounters");
    let field_path = at.child("consumesCounters");
    if consumptions.len() <= MAX_CONSUMPTIONS {
        for (index, consumption) in consumptions.iter().enumerate() {
            validate_counters(consumption, &field_path.index(index), errors);
        }
    }
    validate_node_selection(device, slice_spec, at, errors);
    validate_binding_conditions(device, at, errors);
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceAttribute
fn validate_attribute(attribute: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(text) = attribute.at("string").as_str() {
        validate_string_value(text, &at.child("string"), errors);
    }
    if let Some(text) = attribute.at("version").as_str() {
        validate_version_value(text, &at.child("version"), errors);
    }
    let field_path = at.child("strings");
    for (index, text) in attribute.texts("strings").enumerate() {
        validate_string_value(text, &field_path.index(index), errors);
    }
    let field_path = at.child("versions");
    for (index, text) in attribute.texts("versions").enumerate() {
        validate_version_value(text, &field_path.index(index), errors);
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceAttributeStringValue
fn validate_string_value(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if text.len() > MAX_VALUE_BYTES {
        errors.push(Error::too_long(at, MAX_VALUE_BYTES));
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceAttributeVersionValue
fn validate_version_value(text: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if !is_semantic_version(text) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(Error::invalid(at, text, detail));
    }
    validate_string_value(text, at, errors);
}

/// Whether it is a semantic version 2.0, such as `1.2.3-alpha.1+build.5`.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = match text.split_once('+') {
        Some((text, build)) => (text, Some(build)),
        None => (text, None),
    };
    let (numbers, before) = match text.split_once('-') {
        Some((numbers, before)) => (numbers, Some(before)),
        None => (text, None),
    };
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_early =
        |part: &str| is_word(part) && (is_number(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && before.is_none_or(|before| before.split('.').all(is_early))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// Hand-written validation of counters: their number is limited.
// upstream: pkg/apis/resource/validation/validation.go validateCounterSet, validateDeviceCounterConsumption
pub(super) fn validate_counters(holder: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let counters = holder.entries("counters").len();
    if counters > MAX_COUNTERS {
        errors.push(Error::too_many(
            &at.child("counters"),
            Some(counters),
            MAX_COUNTERS,
        ));
    }
}

/// Declarative validation of counters and of the name of their set.
pub(super) fn validate_declaratively_counters(
    holder: &Value,
    set: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    match holder.text(set) {
        "" => errors.push(Error::required(&at.child(set), "")),
        name => field_checks::validate_dns1123_label(name, &at.child(set), errors),
    }
    let counters = holder.entries("counters");
    let field_path = at.child("counters");
    if counters.is_empty() {
        errors.push(Error::required(&field_path, ""));
    }
    for key in counters.keys() {
        field_checks::validate_dns1123_label(key, &field_path, errors);
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDevice
fn validate_node_selection(device: &Value, slice_spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    const EXACTLY_ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    if !slice_spec.flag("perDeviceNodeSelection") {
        if ["nodeName", "nodeSelector", "allNodes"]
            .iter()
            .any(|name| device.has(name))
        {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(Error::invalid(at, Value::Null, detail));
        }
        return;
    }
    let mut set_fields = Vec::new();
    match device.at("nodeName").as_str() {
        None => {}
        Some("") => errors.push(Error::invalid(&at.child("nodeName"), "", "must not be empty")),
        Some(node) => {
            set_fields.push("`nodeName`");
            field_checks::push_invalid(
                node,
                NameFormat::Subdomain.name(node),
                &at.child("nodeName"),
                errors,
            );
        }
    }
    if device.has("nodeSelector") {
        set_fields.push("`nodeSelector`");
        let field_path = at.child("nodeSelector");
        node_selector::validate_node_selector(
            device.at("nodeSelector"),
            InvalidSelectorValues::Checked,
            &field_path,
            errors,
        );
    }
    match device.at("allNodes").as_bool() {
        None => {}
        Some(true) => set_fields.push("`allNodes`"),
        Some(false) => {
            let detail = "must be either unset or set to true";
            errors.push(Error::invalid(&at.child("allNodes"), Value::Bool(false), detail));
        }
    }
    match set_fields.len() {
        0 => errors.push(Error::required(at, EXACTLY_ONE)),
        1 => {}
        _ => errors.push(Error::invalid(
            at,
            format!("{{{}}}", set_fields.join(", ")),
            EXACTLY_ONE,
        )),
    }
}

/// Hand-written validation of binding conditions of a device or result (KEP-5007).
// upstream: pkg/apis/resource/validation/validation.go validateDeviceBindingParameters
pub(super) fn validate_binding_conditions(holder: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let [good, bad] = BINDING_CONDITION_FIELDS;
    for list in BINDING_CONDITION_FIELDS {
        let field_path = at.child(list);
        if holder.items(list).len() <= MAX_BINDING_CONDITIONS {
            for (index, condition) in holder.texts(list).enumerate() {
                field_checks::validate_qualified_name(condition, &field_path.index(index), errors);
            }
        }
    }
    for list in BINDING_CONDITION_FIELDS {
        let items = holder.items(list);
        let field_path = at.child(list);
        let repeated = field_checks::duplicate_flags(items);
        for (index, item) in items.iter().enumerate() {
            if repeated[index] {
                errors.push(Error::duplicate(&field_path.index(index), item));
            }
            if list == bad && holder.items(good).contains(item) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(Error::invalid(&field_path.index(index), item, detail));
            }
        }
    }
    for (list, other) in [(good, bad), (bad, good)] {
        if holder.items(list).is_empty() && !holder.items(other).is_empty() {
            let detail = format!("{list} are required to use {other}");
            errors.push(Error::invalid(&at.child(list), Value::Null, detail));
        }
    }
}

/// Declarative validation of binding conditions.
pub(super) fn validate_declaratively_binding_conditions(
    holder: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    for list in BINDING_CONDITION_FIELDS {
        declarative::validate_max_items(
            holder.items(list),
            MAX_BINDING_CONDITIONS,
            &at.child(list),
            errors,
        );
    }
}

/// Declarative validation of a device.
pub(super) fn validate_declaratively_device(device: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("attributes");
    for (key, attribute) in device.entries("attributes") {
        validate_declaratively_attribute(attribute, &field_path.key(key), errors);
    }
    let consumptions = device.items("consumesCounters");
    let field_path = at.child("consumesCounters");
    if declarative::validate_max_items(consumptions, MAX_CONSUMPTIONS, &field_path, errors) {
        let ty = "DeviceCounterConsumption";
        declarative::validate_unique(consumptions, &["counterSet"], ty, &field_path, errors);
        for (index, consumption) in consumptions.iter().enumerate() {
            validate_declaratively_counters(consumption, "counterSet", &field_path.index(index), errors);
        }
    }
    let field_path = at.child("taints");
    for (index, one) in device.items("taints").iter().enumerate() {
        taint::validate_declaratively_taint(one, &field_path.index(index), errors);
    }
    validate_declaratively_binding_conditions(device, at, errors);
}

/// An attribute has exactly one value.
fn validate_declaratively_attribute(attribute: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let set_fields: Vec<_> = VALUE_FIELDS
        .into_iter()
        .filter(|name| attribute.has(name))
        .collect();
    if set_fields.len() == 1 {
        return;
    }
    let all = VALUE_FIELDS.map(|name| format!("`{name}`")).join(", ");
    errors.push(if set_fields.is_empty() {
        Error::invalid(at, "", format!("must specify one of: {all}"))
    } else {
        let value = format!("{{{}}}", set_fields.join(", "));
        Error::invalid(at, value, format!("must specify exactly one of: {all}"))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accepts_only_semantic_versions() {
        for text in [
            "1.2.3",
            "0.0.0",
            "1.0.0-alpha.1",
            "1.0.0-x-y.z+5114f85",
            "1.0.0+01",
            "1.0.0-0a",
        ] {
            assert!(is_semantic_version(text), "{text}");
        }
        for text in [
            "1.2", "01.2.3", "1.2.3.4", "1.0.0-01", "1.0.0-", "1.0.0+", "v1.0.0",
        ] {
            assert!(!is_semantic_version(text), "{text}");
        }
    }

    #[test]
    fn rejects_overlapping_binding_conditions() {
        let mut errors = ErrorList::new();
        validate_binding_conditions(
            &json!({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]}),
            &Path::new("d"),
            &mut errors,
        );
        validate_binding_conditions(&json!({"bindingConditions": ["a"]}), &Path::new("e"), &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "d.bindingConditions[1]: Duplicate value: \"a\"",
                "d.bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap with bindingConditions",
                "e.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
            ]
        );
    }
}
