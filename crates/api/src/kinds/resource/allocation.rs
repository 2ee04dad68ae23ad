//! The status of a claim: which devices it got, who uses them, what drivers tell of them.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    claim::REQUESTS,
    configuration::{self, Age, CONFIGURATIONS},
    declared, device, taint,
    word::{self, Requests},
};
use crate::{
    field::{Error, Path, Shown},
    go,
    kinds::{
        condition,
        core::{
            node_selector::{self, Values},
            volume::source::validate_csi_driver_name,
        },
        field_checks,
    },
    name,
    rules::{Errors, Tree, TreeMut},
};

const CONSUMERS: usize = 256;
const RESULTS: usize = 32;
const CONDITIONS: usize = 8;
const DATA_BYTES: usize = 10 * 1024;
const ADDRESSES: usize = 16;
const INTERFACE_BYTES: usize = 256;
const HARDWARE_BYTES: usize = 128;
/// What tells devices of a claim apart.
const IDENTITY: [&str; 4] = ["driver", "device", "pool", "shareID"];
/// In the order errors list them.
const SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// Takes out what belongs to features that are off, and what drivers told of devices the claim no longer has.
pub(super) fn prepare(status: &mut Value, old: &Value) {
    let skips = |result: &Value| !result.items("skipNodeOperations").is_empty();
    if !results(old).iter().any(skips)
        && let Some(devices) = status
            .at_mut("allocation")
            .and_then(|allocation| allocation.at_mut("devices"))
    {
        for result in devices.items_mut("results") {
            result.remove("skipNodeOperations");
        }
    }
    let kept: HashSet<_> = results(status).iter().map(identity).collect();
    let gone: HashSet<_> = results(old)
        .iter()
        .map(identity)
        .filter(|old| !kept.contains(old))
        .map(|old| old.map(str::to_owned))
        .collect();
    if gone.is_empty() {
        return;
    }
    if let Some(Value::Array(devices)) = status.at_mut("devices") {
        devices.retain(|device| !gone.contains(&identity(device).map(str::to_owned)));
        if devices.is_empty() {
            status.remove("devices");
        }
    }
}

fn results(status: &Value) -> &[Value] {
    status.way("allocation.devices").items("results")
}

fn identity(device: &Value) -> [&str; 4] {
    IDENTITY.map(|name| device.text(name))
}

/// What is wrong with a new status.
pub(super) fn validate(claim: &Value, old: &Value, errors: &mut Errors) {
    let status = claim.at("status");
    let at = Path::new("status");
    judge_consumers(claim, old, &at, errors);
    let allocation = status.at("allocation");
    let field_path = at.child("allocation");
    if !allocation.is_null() && !old.has("allocation") {
        let requests = Requests::new(claim.way("spec.devices").items("requests"));
        judge_allocation(allocation, &requests, &field_path, errors);
    }
    if !allocation.is_null() && old.has("allocation") {
        if allocation != old.at("allocation") {
            let detail = "field cannot be modified once set";
            errors.push(Error::invalid(&field_path, Value::Null, detail));
        }
    } else if !allocation.is_null() {
        declared_allocation(allocation, &field_path, errors);
    }
    declared_rest(status, &at, errors);
}

fn judge_consumers(claim: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    let status = claim.at("status");
    let consumers = status.items("reservedFor");
    let field_path = at.child("reservedFor");
    if consumers.len() <= CONSUMERS {
        for (index, consumer) in consumers.iter().enumerate() {
            let field_path = field_path.index(index);
            field_checks::require_fields(consumer, &["resource", "name", "uid"], &field_path, errors);
        }
    }
    let devices = at.child("devices");
    let allocated: HashSet<_> = results(status).iter().map(identity).collect();
    for (index, device) in status.items("devices").iter().enumerate() {
        judge_device(device, &allocated, &devices.index(index), errors);
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

fn judge_device(device: &Value, allocated: &HashSet<[&str; 4]>, at: &Path<'_>, errors: &mut Errors) {
    validate_csi_driver_name(device.text("driver"), &at.child("driver"), errors);
    word::pool(device.text("pool"), &at.child("pool"), errors);
    field_checks::validate_dns1123_label(device.text("device"), &at.child("device"), errors);
    if !allocated.contains(&identity(device)) {
        let text = |name: &str| go::json_string(device.text(name));
        let shown = format!(
            "{{\"Driver\":{},\"Pool\":{},\"Device\":{},\"ShareID\":{}}}",
            text("driver"),
            text("pool"),
            text("device"),
            text("shareID"),
        );
        let detail = "must be an allocated device in the claim";
        errors.push(Error::invalid(at, Shown::Printed(shown), detail));
    }
    let conditions = device.items("conditions");
    let field_path = at.child("conditions");
    if conditions.len() > CONDITIONS {
        errors.push(Error::too_many(&field_path, Some(conditions.len()), CONDITIONS));
    }
    condition::validate_conditions(conditions, &field_path, errors);
    if device.has("data") {
        configuration::raw(device.at("data"), Some(DATA_BYTES), &at.child("data"), errors);
    }
    let addresses = device.at("networkData").items("ips");
    if addresses.len() <= ADDRESSES {
        let field_path = at.child("networkData");
        let field_path = field_path.child("ips");
        for (index, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            errors.extend(name::interface_address(&field_path.index(index), address));
        }
    }
}

fn judge_allocation(allocation: &Value, requests: &Requests<'_>, at: &Path<'_>, errors: &mut Errors) {
    let devices = at.child("devices");
    let results = allocation.at("devices").items("results");
    let field_path = devices.child("results");
    if results.len() <= RESULTS {
        for (index, result) in results.iter().enumerate() {
            let field_path = field_path.index(index);
            requests.judge(result.text("request"), &field_path.child("request"), errors);
            field_checks::validate_dns1123_label(result.text("device"), &field_path.child("device"), errors);
            device::judge_conditions(result, &field_path, errors);
            taint::judge_tolerations(result, &field_path, errors);
        }
    }
    let configurations = allocation.at("devices").items("config");
    let field_path = devices.child("config");
    if configurations.len() <= 2 * CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            requests.judge_all(one, &field_path, errors);
            configuration::judge(one, Age::New, &field_path, errors);
        }
    }
    if allocation.has("nodeSelector") {
        let field_path = at.child("nodeSelector");
        node_selector::validate(
            allocation.at("nodeSelector"),
            Values::Checked,
            &field_path,
            errors,
        );
    }
}

fn declared_allocation(allocation: &Value, at: &Path<'_>, errors: &mut Errors) {
    let devices = at.child("devices");
    let results = allocation.at("devices").items("results");
    let field_path = devices.child("results");
    if declared::few(results, RESULTS, &field_path, errors) {
        for (index, result) in results.iter().enumerate() {
            let field_path = field_path.index(index);
            word::declared_driver(result.text("driver"), &field_path.child("driver"), errors);
            word::declared_pool(result.text("pool"), &field_path.child("pool"), errors);
            taint::declared_tolerations(result, &field_path, errors);
            device::declared_conditions(result, &field_path, errors);
            word::declared_uuid(result.at("shareID"), &field_path.child("shareID"), errors);
        }
    }
    let configurations = allocation.at("devices").items("config");
    let field_path = devices.child("config");
    if declared::few(configurations, 2 * CONFIGURATIONS, &field_path, errors) {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            declared::required_of(one, "source", &SOURCES, &field_path, errors);
            declared::set(one, "requests", REQUESTS, &field_path, errors);
            configuration::declared(one, &field_path, errors);
        }
    }
}

fn declared_rest(status: &Value, at: &Path<'_>, errors: &mut Errors) {
    let consumers = status.items("reservedFor");
    let field_path = at.child("reservedFor");
    if declared::few(consumers, CONSUMERS, &field_path, errors) {
        let ty = "ResourceClaimConsumerReference";
        declared::unique(consumers, &["uid"], ty, &field_path, errors);
    }
    let devices = status.items("devices");
    let field_path = at.child("devices");
    declared::unique(devices, &IDENTITY, "AllocatedDeviceStatus", &field_path, errors);
    for (index, device) in devices.iter().enumerate() {
        let field_path = field_path.index(index);
        word::declared_uuid(device.at("shareID"), &field_path.child("shareID"), errors);
        let network = device.at("networkData");
        let field_path = field_path.child("networkData");
        let short = |name: &str, most: usize, errors: &mut Errors| {
            if network.text(name).len() > most {
                errors.push(Error::too_long(&field_path.child(name), most));
            }
        };
        short("interfaceName", INTERFACE_BYTES, errors);
        declared::set(network, "ips", ADDRESSES, &field_path, errors);
        short("hardwareAddress", HARDWARE_BYTES, errors);
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
        let mut errors = Errors::new();
        validate(&claim(status), old, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn allocated(device: &str) -> Value {
        json!({"allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": device}]}}})
    }

    #[test]
    fn what_is_allocated_stays() {
        assert!(errors(&allocated("a"), &json!({})).is_empty());
        assert_eq!(
            errors(&allocated("b"), &allocated("a")),
            ["status.allocation: Invalid value: null: field cannot be modified once set"]
        );
        assert!(errors(&json!({}), &allocated("a")).is_empty());
    }

    #[test]
    fn nobody_uses_what_is_not_allocated() {
        let consumer = json!({"resource": "pods", "name": "p", "uid": "u"});
        assert_eq!(
            errors(&json!({"reservedFor": [consumer]}), &json!({})),
            ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"]
        );
    }

    #[test]
    fn drivers_tell_of_devices_of_the_claim_only() {
        let mut status = allocated("a");
        status.set("devices", json!([{"driver": "d", "pool": "p", "device": "x"}]));
        assert_eq!(
            errors(&status, &json!({})),
            [
                "status.devices[0]: Invalid value: {\"Driver\":\"d\",\"Pool\":\"p\",\"Device\":\"x\",\"ShareID\":\"\"}: must be an allocated device in the claim"
            ]
        );
        prepare(&mut status, &allocated("x"));
        assert!(!status.has("devices"));
    }
}
