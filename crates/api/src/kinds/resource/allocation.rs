//! Status of a ResourceClaim: allocated devices, the consumers that reserved them, and device status from drivers.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    claim::MAX_REQUESTS,
    configuration::{self, MAX_CONFIGURATIONS, ValidatedItem},
    declarative, device,
    names::{self, RequestNames},
    taint,
};
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{
        condition,
        core::{
            node_selector::{self, InvalidSelectorValues},
            volume::source::validate_csi_driver_name,
        },
        field_checks,
    },
    name,
    strategy::{ErrorList, Tree, TreeMut},
};

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_DATA_BYTES: usize = 10 * 1024;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE_NAME_BYTES: usize = 256;
const MAX_HARDWARE_ADDRESS_BYTES: usize = 128;
/// The fields that identify a device of a claim.
const DEVICE_ID_FIELDS: [&str; 4] = ["driver", "device", "pool", "shareID"];
/// In the order of error messages.
const CONFIG_SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Clears fields of disabled feature gates, and status of devices that are no longer allocated.
// upstream: pkg/registry/resource/resourceclaim/strategy.go dropDisabledStatusFields, dropDeallocatedStatusDevices
pub(super) fn prepare_status(status: &mut Value, old: &Value) {
    let skips = |result: &Value| !result.items("skipNodeOperations").is_empty();
    if !allocation_results(old).iter().any(skips)
        && let Some(devices) = status
            .at_mut("allocation")
            .and_then(|allocation| allocation.at_mut("devices"))
    {
        for result in devices.items_mut("results") {
            result.remove("skipNodeOperations");
        }
    }
    let allocated: HashSet<_> = allocation_results(status).iter().map(device_id).collect();
    let deallocated: HashSet<_> = allocation_results(old)
        .iter()
        .map(device_id)
        .filter(|old| !allocated.contains(old))
        .map(|old| old.map(str::to_owned))
        .collect();
    if deallocated.is_empty() {
        return;
    }
    if let Some(Value::Array(devices)) = status.at_mut("devices") {
        devices.retain(|device| !deallocated.contains(&device_id(device).map(str::to_owned)));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go gatherAllocatedDevices
fn allocation_results(status: &Value) -> &[Value] {
    status.at_path("allocation.devices").items("results")
}

fn device_id(device: &Value) -> [&str; 4] {
    DEVICE_ID_FIELDS.map(|name| device.text(name))
}

// upstream: pkg/apis/resource/validation/validation.go validateResourceClaimStatusUpdate
pub(super) fn validate_status_update(claim: &Value, old: &Value, errors: &mut ErrorList) {
    let status = claim.at("status");
    let at = Path::new("status");
    validate_consumers_and_devices(claim, old, &at, errors);
    let allocation = status.at("allocation");
    let field_path = at.child("allocation");
    if !allocation.is_null() && !old.has("allocation") {
        let requests = RequestNames::new(claim.at_path("spec.devices").items("requests"));
        validate_allocation_result(allocation, &requests, &field_path, errors);
    }
    if !allocation.is_null() && old.has("allocation") {
        if allocation != old.at("allocation") {
            let detail = "field cannot be modified once set";
            errors.push(Error::invalid(&field_path, Value::Null, detail));
        }
    } else if !allocation.is_null() {
        validate_declaratively_allocation(allocation, &field_path, errors);
    }
    validate_declaratively_status(status, &at, errors);
}

// upstream: pkg/apis/resource/validation/validation.go validateResourceClaimStatusUpdate, validateResourceClaimUserReference
fn validate_consumers_and_devices(claim: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let status = claim.at("status");
    let consumers = status.items("reservedFor");
    let field_path = at.child("reservedFor");
    if consumers.len() <= MAX_CONSUMERS {
        for (index, consumer) in consumers.iter().enumerate() {
            let field_path = field_path.index(index);
            field_checks::require_fields(consumer, &["resource", "name", "uid"], &field_path, errors);
        }
    }
    let devices = at.child("devices");
    let allocated: HashSet<_> = allocation_results(status).iter().map(device_id).collect();
    for (index, device) in status.items("devices").iter().enumerate() {
        validate_device_status(device, &allocated, &devices.index(index), errors);
    }
    if consumers.is_empty() {
        return;
    }
    let before: HashSet<&Value> = old.items("reservedFor").iter().collect();
    let is_new = |consumer: &Value| !before.contains(consumer);
    if !status.has("allocation") {
        let detail = "may not be specified when `allocated` is not set";
        errors.push(Error::forbidden(&field_path, detail));
    } else if claim.at("metadata").has("deletionTimestamp") && consumers.iter().any(is_new) {
        let detail =
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.push(Error::forbidden(&field_path, detail));
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceStatus, validateNetworkDeviceData
fn validate_device_status(
    device: &Value,
    allocated: &HashSet<[&str; 4]>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_csi_driver_name(device.text("driver"), &at.child("driver"), errors);
    names::validate_pool_name(device.text("pool"), &at.child("pool"), errors);
    field_checks::validate_dns1123_label(device.text("device"), &at.child("device"), errors);
    if !allocated.contains(&device_id(device)) {
        let text = |name: &str| go::json_string(device.text(name));
        let device_id = format!(
            "{{\"Driver\":{},\"Pool\":{},\"Device\":{},\"ShareID\":{}}}",
            text("driver"),
            text("pool"),
            text("device"),
            text("shareID"),
        );
        let detail = "must be an allocated device in the claim";
        errors.push(Error::invalid(at, BadValue::Printed(device_id), detail));
    }
    let conditions = device.items("conditions");
    let field_path = at.child("conditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(
            &field_path,
            Some(conditions.len()),
            MAX_CONDITIONS,
        ));
    }
    condition::validate_conditions(conditions, &field_path, errors);
    if device.has("data") {
        configuration::validate_raw_extension(
            device.at("data"),
            Some(MAX_DATA_BYTES),
            &at.child("data"),
            errors,
        );
    }
    let addresses = device.at("networkData").items("ips");
    if addresses.len() <= MAX_ADDRESSES {
        let field_path = at.child("networkData");
        let field_path = field_path.child("ips");
        for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            errors.extend(name::validate_interface_address(
                &field_path.index(index),
                address,
            ));
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateAllocationResult, validateDeviceAllocationResult
fn validate_allocation_result(
    allocation: &Value,
    requests: &RequestNames<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let devices = at.child("devices");
    let results = allocation.at("devices").items("results");
    let field_path = devices.child("results");
    if results.len() <= MAX_RESULTS {
        for (index, result) in results.iter().enumerate() {
            let field_path = field_path.index(index);
            requests.validate_reference(result.text("request"), &field_path.child("request"), errors);
            field_checks::validate_dns1123_label(result.text("device"), &field_path.child("device"), errors);
            device::validate_binding_conditions(result, &field_path, errors);
            taint::validate_tolerations(result, &field_path, errors);
        }
    }
    let configurations = allocation.at("devices").items("config");
    let field_path = devices.child("config");
    if configurations.len() <= 2 * MAX_CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            requests.validate_references(one, &field_path, errors);
            configuration::validate_device_configuration(one, ValidatedItem::New, &field_path, errors);
        }
    }
    if allocation.has("nodeSelector") {
        let field_path = at.child("nodeSelector");
        node_selector::validate_node_selector(
            allocation.at("nodeSelector"),
            InvalidSelectorValues::Checked,
            &field_path,
            errors,
        );
    }
}

fn validate_declaratively_allocation(allocation: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let devices = at.child("devices");
    let results = allocation.at("devices").items("results");
    let field_path = devices.child("results");
    if declarative::validate_max_items(results, MAX_RESULTS, &field_path, errors) {
        for (index, result) in results.iter().enumerate() {
            let field_path = field_path.index(index);
            names::validate_declaratively_driver_name(
                result.text("driver"),
                &field_path.child("driver"),
                errors,
            );
            names::validate_declaratively_pool_name(result.text("pool"), &field_path.child("pool"), errors);
            taint::validate_declaratively_tolerations(result, &field_path, errors);
            device::validate_declaratively_binding_conditions(result, &field_path, errors);
            names::validate_declaratively_share_id(
                result.at("shareID"),
                &field_path.child("shareID"),
                errors,
            );
        }
    }
    let configurations = allocation.at("devices").items("config");
    let field_path = devices.child("config");
    if declarative::validate_max_items(configurations, 2 * MAX_CONFIGURATIONS, &field_path, errors) {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            declarative::validate_required_enum(one, "source", &CONFIG_SOURCES, &field_path, errors);
            declarative::validate_set(one, "requests", MAX_REQUESTS, &field_path, errors);
            configuration::validate_declaratively_configuration(one, &field_path, errors);
        }
    }
}

fn validate_declaratively_status(status: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let consumers = status.items("reservedFor");
    let field_path = at.child("reservedFor");
    if declarative::validate_max_items(consumers, MAX_CONSUMERS, &field_path, errors) {
        let ty = "ResourceClaimConsumerReference";
        declarative::validate_unique(consumers, &["uid"], ty, &field_path, errors);
    }
    let devices = status.items("devices");
    let field_path = at.child("devices");
    declarative::validate_unique(
        devices,
        &DEVICE_ID_FIELDS,
        "AllocatedDeviceStatus",
        &field_path,
        errors,
    );
    for (index, device) in devices.iter().enumerate() {
        let field_path = field_path.index(index);
        names::validate_declaratively_share_id(device.at("shareID"), &field_path.child("shareID"), errors);
        let network = device.at("networkData");
        let field_path = field_path.child("networkData");
        let short = |name: &str, max: usize, errors: &mut ErrorList| {
            if network.text(name).len() > max {
                errors.push(Error::too_long(&field_path.child(name), max));
            }
        };
        short("interfaceName", MAX_INTERFACE_NAME_BYTES, errors);
        declarative::validate_set(network, "ips", MAX_ADDRESSES, &field_path, errors);
        short("hardwareAddress", MAX_HARDWARE_ADDRESS_BYTES, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(status: &Value) -> Value {
        json!({"spec": {"devices": {"requests": [{"name": "r"}]}}, "status": status})
    }

    fn errors(status: &Value, old: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate_status_update(&claim(status), old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn allocated(device: &str) -> Value {
        json!({"allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": device}]}}})
    }

    #[test]
    fn rejects_a_change_of_the_allocation() {
        assert!(errors(&allocated("a"), &json!({})).is_empty());
        assert_eq!(
            errors(&allocated("b"), &allocated("a")),
            ["status.allocation: Invalid value: null: field cannot be modified once set"]
        );
        assert!(errors(&json!({}), &allocated("a")).is_empty());
    }

    #[test]
    fn rejects_consumers_without_allocation() {
        let consumer = json!({"resource": "pods", "name": "p", "uid": "u"});
        assert_eq!(
            errors(&json!({"reservedFor": [consumer]}), &json!({})),
            ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
        );
    }

    #[test]
    fn rejects_status_of_unallocated_devices() {
        let mut status = allocated("a");
        status.set("devices", json!([{"driver": "d", "pool": "p", "device": "x"}]));
        assert_eq!(
            errors(&status, &json!({})),
            [
                "status.devices[0]: Invalid value: {\"Driver\":\"d\",\"Pool\":\"p\",\"Device\":\"x\",\"ShareID\":\"\"}: must be an allocated device in the claim"
            ]
        );
        prepare_status(&mut status, &allocated("x"));
        assert!(!status.has("devices"));
    }
}
