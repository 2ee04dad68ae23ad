//! Resource slices: the devices a driver offers, a part of a pool at a time.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Value, json};

use super::{declared, device, taint, word};
use crate::{
    field::{Error, Path, Shown},
    go,
    kinds::{
        core::{
            node_selector::{self, Values},
            volume::source::validate_csi_driver_name,
        },
        field_checks,
    },
    name::Rule,
    rules::{Circumstances, Column, Errors, Row, Rules, Selectable, Tree, TreeMut, named_row},
    time::Time,
};

const DEVICES: usize = 128;
/// How many devices there may be if one of them has taints, counters or lists.
const RICH_DEVICES: usize = 64;
const COUNTER_SETS: usize = 8;
/// Attributes that hold lists, which belongs to a feature that is off.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

pub(super) struct ResourceSlice;

// upstream: pkg/registry/resource/resourceslice/strategy.go resourceSliceStrategy
impl Rules for ResourceSlice {
    // upstream: pkg/registry/resource/resourceslice/strategy.go PrepareForCreate
    fn prepare_create(&self, object: &mut Value, at: &Circumstances<'_>) {
        let spec = object.make("spec");
        date_taints(spec, at.now);
        drop_disabled(spec, &Value::Null);
    }

    // upstream: pkg/registry/resource/resourceslice/strategy.go PrepareForUpdate
    fn prepare_update(&self, new: &mut Value, old: &Value, at: &Circumstances<'_>) {
        let spec = new.make("spec");
        date_taints(spec, at.now);
        drop_disabled(spec, old.at("spec"));
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceSlice
    fn validate(&self, object: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(object.at("spec"), &Value::Null, errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceSliceUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &Circumstances<'_>, errors: &mut Errors) {
        validate(new.at("spec"), old.at("spec"), errors);
    }

    // upstream: pkg/registry/resource/resourceslice/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let driver = new.at("spec").text("driver");
        if driver.to_lowercase() == driver {
            return Vec::new();
        }
        let driver = go::quote(driver);
        vec![format!(
            "spec.driver: driver names should be lowercase; {driver} contains uppercase characters"
        )]
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn selects_by_namespace(&self) -> bool {
        false
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[
            Selectable::rule("spec.nodeName", |slice| {
                Cow::Borrowed(slice.at("spec").text("nodeName"))
            }),
            Selectable::rule("spec.driver", |slice| {
                Cow::Borrowed(slice.at("spec").text("driver"))
            }),
            Selectable::rule("spec.pool.name", |slice| {
                Cow::Borrowed(slice.way("spec.pool").text("name"))
            }),
        ];
        FIELDS
    }

    fn not_selectable(&self, field: &str) -> String {
        format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("Node", "spec.nodeName"),
            Column::field("Driver", "spec.driver"),
            Column::field("Pool", "spec.pool.name"),
            Column::age(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printResourceSlice
    fn row(&self, object: &Value, now: Time) -> Row {
        let spec = object.at("spec");
        named_row(
            object,
            now,
            [
                json!(spec.text("nodeName")),
                json!(spec.text("driver")),
                json!(spec.at("pool").text("name")),
            ],
        )
    }
}

fn date_taints(spec: &mut Value, now: Time) {
    for device in spec.items_mut("devices") {
        for one in device.items_mut("taints") {
            taint::date(one, now);
        }
    }
}

/// Takes out what belongs to features that are off, unless the old spec has it.
fn drop_disabled(spec: &mut Value, old: &Value) {
    for name in ["partitionTypeAttribute", "skipNodeOperations"] {
        if !old.has(name) {
            spec.remove(name);
        }
    }
    let before = old.items("devices");
    let has_lists = before.iter().any(has_lists);
    let has_groups = before
        .iter()
        .flat_map(|device| device.items("consumesCounters"))
        .any(|consumption| consumption.has("compatibilityGroups"));
    let has_node_resources = before.iter().any(|device| device.has("nodeAllocatableResources"));
    for device in spec.items_mut("devices") {
        if !has_node_resources {
            device.remove("nodeAllocatableResources");
        }
        if !has_groups {
            for consumption in device.items_mut("consumesCounters") {
                consumption.remove("compatibilityGroups");
            }
        }
        if !has_lists && let Some(Value::Object(attributes)) = device.at_mut("attributes") {
            for attribute in attributes.values_mut() {
                for list in LISTS {
                    attribute.remove(list);
                }
            }
        }
    }
}

fn has_lists(device: &Value) -> bool {
    device
        .entries("attributes")
        .values()
        .any(|attribute| LISTS.iter().any(|list| attribute.has(list)))
}

fn validate(spec: &Value, old: &Value, errors: &mut Errors) {
    let at = Path::new("spec");
    judge(spec, old, &at, errors);
    let field_path = at.child("devices");
    for (index, one) in spec.items("devices").iter().enumerate() {
        device::declared(one, &field_path.index(index), errors);
    }
    let sets = spec.items("sharedCounters");
    let field_path = at.child("sharedCounters");
    if declared::few(sets, COUNTER_SETS, &field_path, errors) {
        declared::unique(sets, &["name"], "CounterSet", &field_path, errors);
        for (index, set) in sets.iter().enumerate() {
            device::declared_counters(set, "name", &field_path.index(index), errors);
        }
    }
}

fn judge(spec: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    validate_csi_driver_name(spec.text("driver"), &at.child("driver"), errors);
    let pool = spec.at("pool");
    let field_path = at.child("pool");
    word::pool(pool.text("name"), &field_path.child("name"), errors);
    let count = pool.int("resourceSliceCount").unwrap_or_default();
    if count <= 0 {
        let field_path = field_path.child("resourceSliceCount");
        errors.push(Error::invalid(&field_path, count, "must be greater than zero"));
    }
    let generation = pool.int("generation").unwrap_or_default();
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(
            &field_path.child("generation"),
            generation,
            detail,
        ));
    }
    if !old.is_null() {
        let name = field_path.child("name");
        field_checks::validate_immutable_field(pool.at("name"), old.at("pool").at("name"), &name, errors);
        for name in ["driver", "nodeName"] {
            field_checks::validate_immutable_field(spec.at(name), old.at(name), &at.child(name), errors);
        }
    }
    judge_nodes(spec, at, errors);
    if spec.has("sharedCounters") && spec.has("devices") {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(Error::invalid(at, "", detail));
    }
    judge_devices(spec, old, &at.child("devices"), errors);
    let sets = spec.items("sharedCounters");
    let field_path = at.child("sharedCounters");
    if sets.len() <= COUNTER_SETS {
        for (index, set) in sets.iter().enumerate() {
            device::judge_counters(set, &field_path.index(index), errors);
        }
    }
}

fn judge_devices(spec: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    let devices = spec.items("devices");
    let is_rich =
        |device: &Value| device.has("taints") || device.has("consumesCounters") || has_lists(device);
    let most = if devices.iter().any(is_rich) {
        RICH_DEVICES
    } else {
        DEVICES
    };
    if !declared::few(devices, most, at, errors) {
        return;
    }
    let mut before: HashMap<&str, &Value> = HashMap::new();
    for device in old.items("devices") {
        before.entry(device.text("name")).or_insert(device);
    }
    let each_selects = spec.flag("perDeviceNodeSelection");
    for (index, one) in devices.iter().enumerate() {
        let old = before.get(one.text("name")).copied().unwrap_or(&Value::Null);
        device::judge(one, old, each_selects, &at.index(index), errors);
    }
    let names: Vec<_> = devices.iter().map(|device| device.text("name")).collect();
    for (index, repeats) in field_checks::duplicate_flags(&names).into_iter().enumerate() {
        if repeats {
            errors.push(Error::duplicate(&at.index(index), names[index]));
        }
    }
}

/// A slice is for one node, for nodes with some labels, for all, or says so of each device.
fn judge_nodes(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    const ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut found = Vec::new();
    match spec.at("nodeName").as_str() {
        None => {}
        Some("") => {
            let detail = "must be either unset or set to a non-empty string";
            errors.push(Error::invalid(&at.child("nodeName"), "", detail));
        }
        Some(node) => {
            found.push("`nodeName`");
            field_checks::push_invalid(node, Rule::Subdomain.name(node), &at.child("nodeName"), errors);
        }
    }
    if spec.has("nodeSelector") {
        found.push("`nodeSelector`");
        let selector = spec.at("nodeSelector");
        let field_path = at.child("nodeSelector");
        node_selector::validate(selector, Values::Checked, &field_path, errors);
        if selector.items("nodeSelectorTerms").len() != 1 {
            let detail = "must have exactly one node selector term";
            errors.push(Error::invalid(
                &field_path.child("nodeSelectorTerms"),
                Shown::Printed(node_selector::printed_terms(selector)),
                detail,
            ));
        }
    }
    for (name, shown) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match spec.at(name).as_bool() {
            None => {}
            Some(true) => found.push(shown),
            Some(false) => {
                let detail = "must be either unset or set to true";
                errors.push(Error::invalid(&at.child(name), Value::Bool(false), detail));
            }
        }
    }
    match found.len() {
        0 => errors.push(Error::required(at, ONE)),
        1 => {}
        _ => errors.push(Error::invalid(
            at,
            format!("{{{}}}", found.join(", ")),
            format!("{ONE}, but multiple fields are set"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(devices: &Value) -> Value {
        json!({
            "driver": "d.example",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        })
    }

    fn errors(spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(spec, &Value::Null, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn devices_have_names_and_attributes_one_value() {
        assert!(errors(&slice(&json!([{"name": "a", "attributes": {"x": {"int": 1}}}]))).is_empty());
        assert_eq!(
            errors(&slice(
                &json!([{"name": "a", "attributes": {"x": {}}}, {"name": "a"}])
            )),
            [
                "spec.devices[1]: Duplicate value: \"a\"",
                "spec.devices[0].attributes[x]: Invalid value: \"\": must specify one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`",
            ]
        );
    }

    #[test]
    fn a_device_selects_nodes_only_if_each_does() {
        assert_eq!(
            errors(&slice(&json!([{"name": "a", "allNodes": true}]))),
            [
                "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ]
        );
    }

    #[test]
    fn lists_are_dropped() {
        let mut spec = slice(&json!([{"name": "a", "attributes": {"x": {"ints": [1]}}}]));
        drop_disabled(&mut spec, &Value::Null);
        assert_eq!(spec.items("devices")[0].at("attributes"), &json!({"x": {}}));
    }

    #[test]
    fn slices_are_found_by_node_driver_and_pool() {
        let object = json!({"spec": slice(&json!([]))});
        let values: Vec<_> = ResourceSlice
            .selectable()
            .iter()
            .map(|one| (one.field.as_ref(), one.get(&object)))
            .collect();
        assert_eq!(
            values,
            [
                ("spec.nodeName", "n".into()),
                ("spec.driver", "d.example".into()),
                ("spec.pool.name", "p".into()),
            ]
        );
    }
}
