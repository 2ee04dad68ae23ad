//! Spec of a ResourceClaim: device requests, constraints and driver configuration (dynamic resource allocation, KEP-4381).

use serde_json::Value;

use super::{
    configuration::{self, MAX_CONFIGURATIONS, ValidatedItem},
    declarative,
    names::{self, RequestNames},
    taint,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    strategy::{ErrorList, Tree, TreeMut},
};

pub(super) const MAX_REQUESTS: usize = 32;
const MAX_SUBREQUESTS: usize = 8;
const MAX_CONSTRAINTS: usize = 32;

/// In the order of error messages.
const ALLOCATION_MODES: [&str; 2] = ["All", "ExactCount"];

// upstream: pkg/apis/resource/v1/defaults.go SetDefaults_ExactDeviceRequest, SetDefaults_DeviceSubRequest
pub(super) fn set_defaults_claim_spec(spec: &mut Value) {
    for_each_request(spec, |request| {
        request.set_default("allocationMode", "ExactCount");
        if request.text("allocationMode") == "ExactCount" {
            request.set_default("count", 1);
        }
        taint::set_defaults_tolerations(request);
    });
}

/// Clears derivedAttributes, whose feature gate is off, unless the old spec has some.
pub(super) fn drop_disabled_fields(spec: &mut Value, old: &Value) {
    let has = |request: &Value| !request.items("derivedAttributes").is_empty();
    let in_use = old
        .at("devices")
        .items("requests")
        .iter()
        .any(|request| has(request.at("exactly")) || request.items("firstAvailable").iter().any(has));
    if !in_use {
        for_each_request(spec, |request| drop(request.remove("derivedAttributes")));
    }
}

/// Calls `change` with each exact request and subrequest of a spec.
fn for_each_request(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    let Some(devices) = spec.at_mut("devices") else {
        return;
    };
    for request in devices.items_mut("requests") {
        if let Some(exactly) = request.at_mut("exactly") {
            change(exactly);
        }
        for alternative in request.items_mut("firstAvailable") {
            change(alternative);
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateResourceClaimSpec
pub(super) fn validate_claim_spec(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let devices = spec.at("devices");
    let field_path = at.child("devices");
    validate_device_claim(devices, &field_path, errors);
    validate_declaratively_claim(devices, &field_path, errors);
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceClaim
fn validate_device_claim(devices: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let requests = devices.items("requests");
    let field_path = at.child("requests");
    if requests.len() <= MAX_REQUESTS {
        for (index, request) in requests.iter().enumerate() {
            validate_device_request(request, &field_path.index(index), errors);
        }
    }
    let names = RequestNames::new(requests);
    let constraints = devices.items("constraints");
    let field_path = at.child("constraints");
    if constraints.len() <= MAX_CONSTRAINTS {
        for (index, constraint) in constraints.iter().enumerate() {
            let field_path = field_path.index(index);
            names.validate_references(constraint, &field_path, errors);
            if !constraint.has("matchAttribute") && !constraint.has("distinctAttribute") {
                let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.push(Error::required(&field_path, detail));
            }
        }
    }
    let configurations = devices.items("config");
    let field_path = at.child("config");
    if configurations.len() <= MAX_CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            names.validate_references(one, &field_path, errors);
            configuration::validate_device_configuration(one, ValidatedItem::New, &field_path, errors);
        }
    }
}

// upstream: pkg/apis/resource/validation/validation.go validateDeviceRequest
fn validate_device_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    field_checks::validate_dns1123_label(request.text("name"), &at.child("name"), errors);
    let alternatives = request.items("firstAvailable");
    match (request.has("exactly"), alternatives.is_empty()) {
        (false, true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(Error::required(at, detail));
        }
        (true, false) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(Error::invalid(at, Value::Null, detail));
        }
        (false, false) if alternatives.len() > MAX_SUBREQUESTS => {}
        (false, false) => {
            let field_path = at.child("firstAvailable");
            for (index, alternative) in alternatives.iter().enumerate() {
                let field_path = field_path.index(index);
                field_checks::validate_dns1123_label(
                    alternative.text("name"),
                    &field_path.child("name"),
                    errors,
                );
                validate_exact_request(alternative, &field_path, errors);
            }
        }
        (true, true) => {
            let exactly = request.at("exactly");
            let field_path = at.child("exactly");
            match exactly.text("deviceClassName") {
                "" => errors.push(Error::required(&field_path.child("deviceClassName"), "")),
                class => field_checks::validate_dns1123_subdomain(
                    class,
                    &field_path.child("deviceClassName"),
                    errors,
                ),
            }
            validate_exact_request(exactly, &field_path, errors);
        }
    }
}

/// Validates what exact requests and subrequests have in common.
// upstream: pkg/apis/resource/validation/validation.go validateExactDeviceRequest, validateDeviceSubRequest
fn validate_exact_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    configuration::validate_selectors(request, ValidatedItem::New, at, errors);
    let count = request.int_or_zero("count");
    let field_path = at.child("count");
    match request.text("allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(Error::invalid(&field_path, count, detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(Error::invalid(&field_path, count, "must be greater than zero"));
        }
        _ => {}
    }
    taint::validate_tolerations(request, at, errors);
}

fn validate_declaratively_claim(devices: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let requests = devices.items("requests");
    let field_path = at.child("requests");
    if declarative::validate_max_items(requests, MAX_REQUESTS, &field_path, errors) {
        declarative::validate_unique(requests, &["name"], "DeviceRequest", &field_path, errors);
        for (index, request) in requests.iter().enumerate() {
            validate_declaratively_request(request, &field_path.index(index), errors);
        }
    }
    let constraints = devices.items("constraints");
    let field_path = at.child("constraints");
    if declarative::validate_max_items(constraints, MAX_CONSTRAINTS, &field_path, errors) {
        for (index, constraint) in constraints.iter().enumerate() {
            let field_path = field_path.index(index);
            declarative::validate_set(constraint, "requests", MAX_REQUESTS, &field_path, errors);
            for name in ["matchAttribute", "distinctAttribute"] {
                if let Some(full) = constraint.at(name).as_str() {
                    names::validate_declaratively_attribute_name(full, &field_path.child(name), errors);
                }
            }
        }
    }
    let configurations = devices.items("config");
    let field_path = at.child("config");
    if declarative::validate_max_items(configurations, MAX_CONFIGURATIONS, &field_path, errors) {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            declarative::validate_set(one, "requests", MAX_REQUESTS, &field_path, errors);
            configuration::validate_declaratively_configuration(one, &field_path, errors);
        }
    }
}

fn validate_declaratively_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if request.has("exactly") {
        validate_declaratively_exact_request(request.at("exactly"), &at.child("exactly"), errors);
    }
    let alternatives = request.items("firstAvailable");
    let field_path = at.child("firstAvailable");
    if declarative::validate_max_items(alternatives, MAX_SUBREQUESTS, &field_path, errors) {
        declarative::validate_unique(alternatives, &["name"], "DeviceSubRequest", &field_path, errors);
        for (index, alternative) in alternatives.iter().enumerate() {
            let field_path = field_path.index(index);
            match alternative.text("deviceClassName") {
                "" => errors.push(Error::required(&field_path.child("deviceClassName"), "")),
                class => field_checks::validate_dns1123_subdomain(
                    class,
                    &field_path.child("deviceClassName"),
                    errors,
                ),
            }
            validate_declaratively_exact_request(alternative, &field_path, errors);
        }
    }
}

fn validate_declaratively_exact_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    configuration::validate_declaratively_selectors(request, at, errors);
    declarative::validate_optional_enum(request, "allocationMode", &ALLOCATION_MODES, at, errors);
    taint::validate_declaratively_tolerations(request, at, errors);
}
