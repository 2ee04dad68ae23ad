//! ResourceSlice: devices of a pool that a driver offers.

use std::{borrow::Cow, collections::HashMap};

use serde_json::{Value, json};

use super::{declarative, device, names, taint};
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{
        core::{
            node_selector::{self, InvalidSelectorValues},
            volume::source::validate_csi_driver_name,
        },
        field_checks,
    },
    name::NameFormat,
    strategy::{
        Column, ErrorList, RestStrategy, Row, SelectableField, StrategyContext, Tree, TreeMut, named_row,
    },
    time::Time,
};

const MAX_DEVICES: usize = 128;
/// Limit of devices if one of them has taints, counters or lists.
const MAX_DEVICES_WITH_EXTRAS: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
/// Attribute fields with lists, whose feature gate is off.
const LIST_FIELDS: [&str; 4] = ["bools", "ints", "strings", "versions"];

pub(super) struct ResourceSlice;

// upstream: pkg/registry/resource/resourceslice/strategy.go resourceSliceStrategy
impl RestStrategy for ResourceSlice {
    // upstream: pkg/registry/resource/resourceslice/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        let spec = object.ensure_object("spec");
        set_taint_times(spec, at.now);
        drop_disabled_fields(spec, &Value::Null);
    }

    // upstream: pkg/registry/resource/resourceslice/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        let spec = new.ensure_object("spec");
        set_taint_times(spec, at.now);
        drop_disabled_fields(spec, old.at("spec"));
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceSlice
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_slice(object.at("spec"), &Value::Null, errors);
    }

    // upstream: pkg/apis/resource/validation/validation.go ValidateResourceSliceUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_slice(new.at("spec"), old.at("spec"), errors);
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

    fn selectable_fields(&self) -> &'static [SelectableField] {
        const FIELDS: &[SelectableField] = &[
            SelectableField::rule("spec.nodeName", |slice| {
                Cow::Borrowed(slice.at("spec").text("nodeName"))
            }),
            SelectableField::rule("spec.driver", |slice| {
                Cow::Borrowed(slice.at("spec").text("driver"))
            }),
            SelectableField::rule("spec.pool.name", |slice| {
                Cow::Borrowed(slice.at_path("spec.pool").text("name"))
            }),
        ];
        FIELDS
    }

    fn unsupported_field_label(&self, field: &str) -> String {
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

fn set_taint_times(spec: &mut Value, now: Time) {
    for device in spec.items_mut("devices") {
        for one in device.items_mut("taints") {
            taint::set_time_added(one, now);
        }
    }
}

/// Clears fields of disabled feature gates, unless the old spec has them.
// upstream: pkg/registry/resource/resourceslice/strategy.go dropDisabledFields
fn drop_disabled_fields(spec: &mut Value, old: &Value) {
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
                for list in LIST_FIELDS {
                    attribute.remove(list);
                }
            }
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go haveListAttributes
fn has_lists(device: &Value) -> bool {
    device
        .entries("attributes")
        .values()
        .any(|attribute| LIST_FIELDS.iter().any(|list| attribute.has(list)))
}

// upstream: pkg/apis/resource/validation/validation.go validateResourceSliceSpec
fn validate_slice(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let at = Path::new("spec");
    validate_resource_slice_spec(spec, old, &at, errors);
    let field_path = at.child("devices");
    for (index, one) in spec.items("devices").iter().enumerate() {
        device::validate_declaratively_device(one, &field_path.index(index), errors);
    }
    let sets = spec.items("sharedCounters");
    let field_path = at.child("sharedCounters");
    if declarative::validate_max_items(sets, MAX_COUNTER_SETS, &field_path, errors) {
        declarative::validate_unique(sets, &["name"], "CounterSet", &field_path, errors);
        for (index, set) in sets.iter().enumerate() {
            device::validate_declaratively_counters(set, "name", &field_path.index(index), errors);
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateResourceSliceSpec, validateResourcePool
fn validate_resource_slice_spec(spec: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(spec.text("driver"), &at.child("driver"), errors);
    let pool = spec.at("pool");
    let field_path = at.child("pool");
    names::validate_pool_name(pool.text("name"), &field_path.child("name"), errors);
    let count = pool.int_or_zero("resourceSliceCount");
    if count <= 0 {
        let field_path = field_path.child("resourceSliceCount");
        errors.push(Error::invalid(&field_path, count, "must be greater than zero"));
    }
    let generation = pool.int_or_zero("generation");
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
    validate_node_selection(spec, at, errors);
    if spec.has("sharedCounters") && spec.has("devices") {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(Error::invalid(at, "", detail));
    }
    validate_devices(spec, old, &at.child("devices"), errors);
    let sets = spec.items("sharedCounters");
    let field_path = at.child("sharedCounters");
    if sets.len() <= MAX_COUNTER_SETS {
        for (index, set) in sets.iter().enumerate() {
            device::validate_counters(set, &field_path.index(index), errors);
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateResourceSliceSpec
fn validate_devices(spec: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let devices = spec.items("devices");
    let is_rich =
        |device: &Value| device.has("taints") || device.has("consumesCounters") || has_lists(device);
    let max = if devices.iter().any(is_rich) {
        MAX_DEVICES_WITH_EXTRAS
    } else {
        MAX_DEVICES
    };
    if !declarative::validate_max_items(devices, max, at, errors) {
        return;
    }
    let mut before: HashMap<&str, &Value> = HashMap::new();
    for device in old.items("devices") {
        before.entry(device.text("name")).or_insert(device);
    }
    for (index, one) in devices.iter().enumerate() {
        let old = before.get(one.text("name")).copied().unwrap_or(&Value::Null);
        device::validate_device(one, old, spec, &at.index(index), errors);
    }
    let names: Vec<_> = devices.iter().map(|device| device.text("name")).collect();
    for (index, repeats) in field_checks::duplicate_flags(&names).into_iter().enumerate() {
        if repeats {
            errors.push(Error::duplicate(&at.index(index), names[index]));
        }
    }
}

/// A slice is for one node, for nodes with some labels, for all nodes, or selects nodes per device.
// upstream: pkg/apis/resource/validation/validation.go validateResourceSliceSpec
fn validate_node_selection(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    const EXACTLY_ONE: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut set_fields = Vec::new();
    match spec.at("nodeName").as_str() {
        None => {}
        Some("") => {
            let detail = "must be either unset or set to a non-empty string";
            errors.push(Error::invalid(&at.child("nodeName"), "", detail));
        }
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
    if spec.has("nodeSelector") {
        set_fields.push("`nodeSelector`");
        let selector = spec.at("nodeSelector");
        let field_path = at.child("nodeSelector");
        node_selector::validate_node_selector(selector, InvalidSelectorValues::Checked, &field_path, errors);
        if selector.items("nodeSelectorTerms").len() != 1 {
            let detail = "must have exactly one node selector term";
            errors.push(Error::invalid(
                &field_path.child("nodeSelectorTerms"),
                BadValue::Printed(node_selector::terms_to_go_json(selector)),
                detail,
            ));
        }
    }
    for (name, quoted_name) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match spec.at(name).as_bool() {
            None => {}
            Some(true) => set_fields.push(quoted_name),
            Some(false) => {
                let detail = "must be either unset or set to true";
                errors.push(Error::invalid(&at.child(name), Value::Bool(false), detail));
            }
        }
    }
    match set_fields.len() {
        0 => errors.push(Error::required(at, EXACTLY_ONE)),
        1 => {}
        _ => errors.push(Error::invalid(
            at,
            format!("{{{}}}", set_fields.join(", ")),
            format!("{EXACTLY_ONE}, but multiple fields are set"),
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
        let mut errors = ErrorList::new();
        validate_slice(spec, &Value::Null, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rejects_unnamed_devices_and_ambiguous_attributes() {
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
    fn rejects_node_selection_of_devices_unless_per_device() {
        assert_eq!(
            errors(&slice(&json!([{"name": "a", "allNodes": true}]))),
            [
                "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            ]
        );
    }

    #[test]
    fn drops_list_attributes() {
        let mut spec = slice(&json!([{"name": "a", "attributes": {"x": {"ints": [1]}}}]));
        drop_disabled_fields(&mut spec, &Value::Null);
        assert_eq!(spec.items("devices")[0].at("attributes"), &json!({"x": {}}));
    }

    #[test]
    fn selects_by_node_driver_and_pool() {
        let object = json!({"spec": slice(&json!([]))});
        let values: Vec<_> = ResourceSlice
            .selectable_fields()
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
