//! Devices of a slice.

use serde_json::Value;

use super::{capacity, declared, taint, word};
use crate::{
    field::{Error, Path},
    kinds::{
        core::node_selector::{self, Values},
        field_checks,
    },
    name::Rule,
    rules::{Errors, Tree},
};

const ATTRIBUTES_AND_CAPACITIES: usize = 32;
const ATTRIBUTE_VALUES: usize = 48;
const VALUE_BYTES: usize = 64;
const TAINTS: usize = 16;
const CONDITIONS: usize = 4;
const CONSUMPTIONS: usize = 2;
/// How many counters a set has, or a device consumes of one.
const COUNTERS: usize = 32;
/// The fields of an attribute, one of which holds its value.
const VALUES: [&str; 8] = [
    "int", "bool", "string", "version", "ints", "bools", "strings", "versions",
];
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const CONDITION_LISTS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];

/// What is wrong with a device, by hand.
pub(super) fn judge(device: &Value, old: &Value, each_selects: bool, at: &Path<'_>, errors: &mut Errors) {
    field_checks::validate_dns1123_label(device.text("name"), &at.child("name"), errors);
    let attributes = device.entries("attributes");
    let capacities = device.entries("capacity");
    let total = attributes.len() + capacities.len();
    if total > ATTRIBUTES_AND_CAPACITIES {
        let detail = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES}"
        );
        errors.push(Error::invalid(at, total, detail));
    }
    let count = |attribute: &Value| {
        let listed: usize = LISTS.iter().map(|list| attribute.items(list).len()).sum();
        listed.max(1)
    };
    let values: usize = attributes.values().map(count).sum();
    if values > ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES}");
        errors.push(Error::invalid(at, values, detail));
    }
    let field_path = at.child("attributes");
    for (key, attribute) in attributes {
        word::qualified(key, &field_path, errors);
        judge_attribute(
            attribute,
            &field_path.key(&word::shortened(key, word::KEY)),
            errors,
        );
    }
    if old.is_null() || old.at("capacity") != device.at("capacity") {
        let field_path = at.child("capacity");
        let shared = device.flag("allowMultipleAllocations");
        for (key, one) in capacities {
            word::qualified(key, &field_path, errors);
            capacity::judge(
                one,
                shared,
                &field_path.key(&word::shortened(key, word::KEY)),
                errors,
            );
        }
    }
    if old.is_null() || old.at("taints") != device.at("taints") {
        let taints = device.items("taints");
        let field_path = at.child("taints");
        if declared::few(taints, TAINTS, &field_path, errors) {
            for (index, one) in taints.iter().enumerate() {
                taint::judge(one, &field_path.index(index), errors);
            }
        }
    }
    let consumptions = device.items("consumesCounters");
    let field_path = at.child("consumesCounters");
    if consumptions.len() <= CONSUMPTIONS {
        for (index, consumption) in consumptions.iter().enumerate() {
            judge_counters(consumption, &field_path.index(index), errors);
        }
    }
    judge_nodes(device, each_selects, at, errors);
    judge_conditions(device, at, errors);
}

fn judge_attribute(attribute: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(text) = attribute.at("string").as_str() {
        short(text, &at.child("string"), errors);
    }
    if let Some(text) = attribute.at("version").as_str() {
        version(text, &at.child("version"), errors);
    }
    let field_path = at.child("strings");
    for (index, text) in attribute.texts("strings").enumerate() {
        short(text, &field_path.index(index), errors);
    }
    let field_path = at.child("versions");
    for (index, text) in attribute.texts("versions").enumerate() {
        version(text, &field_path.index(index), errors);
    }
}

fn short(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if text.len() > VALUE_BYTES {
        errors.push(Error::too_long(at, VALUE_BYTES));
    }
}

fn version(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if !is_version(text) {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(Error::invalid(at, text, detail));
    }
    short(text, at, errors);
}

/// `1.2.3-alpha.1+build.5`.
fn is_version(text: &str) -> bool {
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

/// What is wrong with counters, by hand: there may be too many.
pub(super) fn judge_counters(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let counters = of.entries("counters").len();
    if counters > COUNTERS {
        errors.push(Error::too_many(&at.child("counters"), Some(counters), COUNTERS));
    }
}

/// What the types say of counters, and of the set they are in.
pub(super) fn declared_counters(of: &Value, set: &str, at: &Path<'_>, errors: &mut Errors) {
    match of.text(set) {
        "" => errors.push(Error::required(&at.child(set), "")),
        name => field_checks::validate_dns1123_label(name, &at.child(set), errors),
    }
    let counters = of.entries("counters");
    let field_path = at.child("counters");
    if counters.is_empty() {
        errors.push(Error::required(&field_path, ""));
    }
    for key in counters.keys() {
        field_checks::validate_dns1123_label(key, &field_path, errors);
    }
}

fn judge_nodes(device: &Value, each_selects: bool, at: &Path<'_>, errors: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    if !each_selects {
        if ["nodeName", "nodeSelector", "allNodes"]
            .iter()
            .any(|name| device.has(name))
        {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(Error::invalid(at, Value::Null, detail));
        }
        return;
    }
    let mut found = Vec::new();
    match device.at("nodeName").as_str() {
        None => {}
        Some("") => errors.push(Error::invalid(&at.child("nodeName"), "", "must not be empty")),
        Some(node) => {
            found.push("`nodeName`");
            field_checks::push_invalid(node, Rule::Subdomain.name(node), &at.child("nodeName"), errors);
        }
    }
    if device.has("nodeSelector") {
        found.push("`nodeSelector`");
        let field_path = at.child("nodeSelector");
        node_selector::validate(device.at("nodeSelector"), Values::Checked, &field_path, errors);
    }
    match device.at("allNodes").as_bool() {
        None => {}
        Some(true) => found.push("`allNodes`"),
        Some(false) => {
            let detail = "must be either unset or set to true";
            errors.push(Error::invalid(&at.child("allNodes"), Value::Bool(false), detail));
        }
    }
    match found.len() {
        0 => errors.push(Error::required(at, ONE)),
        1 => {}
        _ => errors.push(Error::invalid(at, format!("{{{}}}", found.join(", ")), ONE)),
    }
}

/// What is wrong with the conditions a device or result waits for, by hand.
pub(super) fn judge_conditions(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    let [good, bad] = CONDITION_LISTS;
    for list in CONDITION_LISTS {
        let field_path = at.child(list);
        if of.items(list).len() <= CONDITIONS {
            for (index, condition) in of.texts(list).enumerate() {
                field_checks::validate_qualified_name(condition, &field_path.index(index), errors);
            }
        }
    }
    for list in CONDITION_LISTS {
        let items = of.items(list);
        let field_path = at.child(list);
        let repeated = field_checks::duplicate_flags(items);
        for (index, item) in items.iter().enumerate() {
            if repeated[index] {
                errors.push(Error::duplicate(&field_path.index(index), item));
            }
            if list == bad && of.items(good).contains(item) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(Error::invalid(&field_path.index(index), item, detail));
            }
        }
    }
    for (list, other) in [(good, bad), (bad, good)] {
        if of.items(list).is_empty() && !of.items(other).is_empty() {
            let detail = format!("{list} are required to use {other}");
            errors.push(Error::invalid(&at.child(list), Value::Null, detail));
        }
    }
}

/// What the types say of those conditions.
pub(super) fn declared_conditions(of: &Value, at: &Path<'_>, errors: &mut Errors) {
    for list in CONDITION_LISTS {
        declared::few(of.items(list), CONDITIONS, &at.child(list), errors);
    }
}

/// What the types say of a device.
pub(super) fn declared(device: &Value, at: &Path<'_>, errors: &mut Errors) {
    let field_path = at.child("attributes");
    for (key, attribute) in device.entries("attributes") {
        declared_attribute(attribute, &field_path.key(key), errors);
    }
    let consumptions = device.items("consumesCounters");
    let field_path = at.child("consumesCounters");
    if declared::few(consumptions, CONSUMPTIONS, &field_path, errors) {
        let ty = "DeviceCounterConsumption";
        declared::unique(consumptions, &["counterSet"], ty, &field_path, errors);
        for (index, consumption) in consumptions.iter().enumerate() {
            declared_counters(consumption, "counterSet", &field_path.index(index), errors);
        }
    }
    let field_path = at.child("taints");
    for (index, one) in device.items("taints").iter().enumerate() {
        taint::declared(one, &field_path.index(index), errors);
    }
    declared_conditions(device, at, errors);
}

/// An attribute has one value.
fn declared_attribute(attribute: &Value, at: &Path<'_>, errors: &mut Errors) {
    let found: Vec<_> = VALUES.into_iter().filter(|name| attribute.has(name)).collect();
    if found.len() == 1 {
        return;
    }
    let all = VALUES.map(|name| format!("`{name}`")).join(", ");
    errors.push(if found.is_empty() {
        Error::invalid(at, "", format!("must specify one of: {all}"))
    } else {
        let shown = format!("{{{}}}", found.join(", "));
        Error::invalid(at, shown, format!("must specify exactly one of: {all}"))
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_semantic() {
        for text in [
            "1.2.3",
            "0.0.0",
            "1.0.0-alpha.1",
            "1.0.0-x-y.z+5114f85",
            "1.0.0+01",
            "1.0.0-0a",
        ] {
            assert!(is_version(text), "{text}");
        }
        for text in [
            "1.2", "01.2.3", "1.2.3.4", "1.0.0-01", "1.0.0-", "1.0.0+", "v1.0.0",
        ] {
            assert!(!is_version(text), "{text}");
        }
    }

    #[test]
    fn conditions_come_in_two_lists_that_do_not_meet() {
        let mut errors = Errors::new();
        judge_conditions(
            &json!({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]}),
            &Path::new("d"),
            &mut errors,
        );
        judge_conditions(&json!({"bindingConditions": ["a"]}), &Path::new("e"), &mut errors);
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
