//! What a claim asks for: requests of devices, what binds them together, and what their drivers are told.

use serde_json::Value;

use super::{
    configuration::{self, Age, CONFIGURATIONS},
    declared, taint,
    word::{self, Requests},
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    rules::{Errors, Tree, TreeMut},
};

/// How many requests, alternatives of one, and constraints there may be.
pub(super) const REQUESTS: usize = 32;
const ALTERNATIVES: usize = 8;
const CONSTRAINTS: usize = 32;

/// In the order errors list them.
const MODES: [&str; 2] = ["All", "ExactCount"];

/// Fills in what was left out of the spec of a claim.
pub(super) fn default(spec: &mut Value) {
    each_request(spec, |request| {
        request.fill("allocationMode", "ExactCount");
        if request.text("allocationMode") == "ExactCount" {
            request.fill("count", 1);
        }
        taint::default_tolerations(request);
    });
}

/// Takes out attributes that are derived, which belongs to a feature that is off, unless the old spec has some.
pub(super) fn drop_disabled(spec: &mut Value, old: &Value) {
    let has = |request: &Value| !request.items("derivedAttributes").is_empty();
    let in_use = old
        .at("devices")
        .items("requests")
        .iter()
        .any(|request| has(request.at("exactly")) || request.items("firstAvailable").iter().any(has));
    if !in_use {
        each_request(spec, |request| drop(request.remove("derivedAttributes")));
    }
}

/// The requests of a spec that say which devices they want: exact ones, and alternatives.
fn each_request(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
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

/// What is wrong with the spec of a claim.
pub(super) fn validate(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let devices = spec.at("devices");
    let field_path = at.child("devices");
    judge(devices, &field_path, errors);
    declared(devices, &field_path, errors);
}

fn judge(devices: &Value, at: &Path<'_>, errors: &mut Errors) {
    let requests = devices.items("requests");
    let field_path = at.child("requests");
    if requests.len() <= REQUESTS {
        for (index, request) in requests.iter().enumerate() {
            judge_request(request, &field_path.index(index), errors);
        }
    }
    let names = Requests::new(requests);
    let constraints = devices.items("constraints");
    let field_path = at.child("constraints");
    if constraints.len() <= CONSTRAINTS {
        for (index, constraint) in constraints.iter().enumerate() {
            let field_path = field_path.index(index);
            names.judge_all(constraint, &field_path, errors);
            if !constraint.has("matchAttribute") && !constraint.has("distinctAttribute") {
                let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.push(Error::required(&field_path, detail));
            }
        }
    }
    let configurations = devices.items("config");
    let field_path = at.child("config");
    if configurations.len() <= CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            names.judge_all(one, &field_path, errors);
            configuration::judge(one, Age::New, &field_path, errors);
        }
    }
}

fn judge_request(request: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        (false, false) if alternatives.len() > ALTERNATIVES => {}
        (false, false) => {
            let field_path = at.child("firstAvailable");
            for (index, alternative) in alternatives.iter().enumerate() {
                let field_path = field_path.index(index);
                field_checks::validate_dns1123_label(
                    alternative.text("name"),
                    &field_path.child("name"),
                    errors,
                );
                judge_devices(alternative, &field_path, errors);
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
            judge_devices(exactly, &field_path, errors);
        }
    }
}

/// What is asked of exact requests and alternatives alike.
fn judge_devices(request: &Value, at: &Path<'_>, errors: &mut Errors) {
    configuration::judge_selectors(request, Age::New, at, errors);
    let count = request.int("count").unwrap_or_default();
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
    taint::judge_tolerations(request, at, errors);
}

fn declared(devices: &Value, at: &Path<'_>, errors: &mut Errors) {
    let requests = devices.items("requests");
    let field_path = at.child("requests");
    if declared::few(requests, REQUESTS, &field_path, errors) {
        declared::unique(requests, &["name"], "DeviceRequest", &field_path, errors);
        for (index, request) in requests.iter().enumerate() {
            declared_request(request, &field_path.index(index), errors);
        }
    }
    let constraints = devices.items("constraints");
    let field_path = at.child("constraints");
    if declared::few(constraints, CONSTRAINTS, &field_path, errors) {
        for (index, constraint) in constraints.iter().enumerate() {
            let field_path = field_path.index(index);
            declared::set(constraint, "requests", REQUESTS, &field_path, errors);
            for name in ["matchAttribute", "distinctAttribute"] {
                if let Some(full) = constraint.at(name).as_str() {
                    word::declared_full(full, &field_path.child(name), errors);
                }
            }
        }
    }
    let configurations = devices.items("config");
    let field_path = at.child("config");
    if declared::few(configurations, CONFIGURATIONS, &field_path, errors) {
        for (index, one) in configurations.iter().enumerate() {
            let field_path = field_path.index(index);
            declared::set(one, "requests", REQUESTS, &field_path, errors);
            configuration::declared(one, &field_path, errors);
        }
    }
}

fn declared_request(request: &Value, at: &Path<'_>, errors: &mut Errors) {
    if request.has("exactly") {
        declared_devices(request.at("exactly"), &at.child("exactly"), errors);
    }
    let alternatives = request.items("firstAvailable");
    let field_path = at.child("firstAvailable");
    if declared::few(alternatives, ALTERNATIVES, &field_path, errors) {
        declared::unique(alternatives, &["name"], "DeviceSubRequest", &field_path, errors);
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
            declared_devices(alternative, &field_path, errors);
        }
    }
}

fn declared_devices(request: &Value, at: &Path<'_>, errors: &mut Errors) {
    configuration::declared_selectors(request, at, errors);
    declared::optional_of(request, "allocationMode", &MODES, at, errors);
    taint::declared_tolerations(request, at, errors);
}
