//! What a claim asks for: requests of devices, what binds them together, and what their drivers are told.

use serde_json::Value;

use super::{
    configuration::{self, Age, CONFIGURATIONS},
    declared, taint,
    word::{self, Requests},
};
use crate::{
    field::{Error, Path},
    kinds::demand,
    strategy::{ErrorList, Tree, TreeMut},
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
        request.set_default("allocationMode", "ExactCount");
        if request.text("allocationMode") == "ExactCount" {
            request.set_default("count", 1);
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
pub(super) fn validate(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (devices, place) = (spec.at("devices"), at.child("devices"));
    judge(devices, &place, errors);
    declared(devices, &place, errors);
}

fn judge(devices: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let requests = devices.items("requests");
    let place = at.child("requests");
    if requests.len() <= REQUESTS {
        for (index, request) in requests.iter().enumerate() {
            judge_request(request, &place.index(index), errors);
        }
    }
    let names = Requests::new(requests);
    let constraints = devices.items("constraints");
    let place = at.child("constraints");
    if constraints.len() <= CONSTRAINTS {
        for (index, constraint) in constraints.iter().enumerate() {
            let place = place.index(index);
            names.judge_all(constraint, &place, errors);
            if !constraint.has("matchAttribute") && !constraint.has("distinctAttribute") {
                let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.push(Error::required(&place, detail));
            }
        }
    }
    let configurations = devices.items("config");
    let place = at.child("config");
    if configurations.len() <= CONFIGURATIONS {
        for (index, one) in configurations.iter().enumerate() {
            let place = place.index(index);
            names.judge_all(one, &place, errors);
            configuration::judge(one, Age::New, &place, errors);
        }
    }
}

fn judge_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    demand::label(request.text("name"), &at.child("name"), errors);
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
            let place = at.child("firstAvailable");
            for (index, alternative) in alternatives.iter().enumerate() {
                let place = place.index(index);
                demand::label(alternative.text("name"), &place.child("name"), errors);
                judge_devices(alternative, &place, errors);
            }
        }
        (true, true) => {
            let (exactly, place) = (request.at("exactly"), at.child("exactly"));
            match exactly.text("deviceClassName") {
                "" => errors.push(Error::required(&place.child("deviceClassName"), "")),
                class => demand::subdomain(class, &place.child("deviceClassName"), errors),
            }
            judge_devices(exactly, &place, errors);
        }
    }
}

/// What is asked of exact requests and alternatives alike.
fn judge_devices(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    configuration::judge_selectors(request, Age::New, at, errors);
    let count = request.int("count").unwrap_or_default();
    let place = at.child("count");
    match request.text("allocationMode") {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            errors.push(Error::invalid(&place, count, detail));
        }
        "ExactCount" if count <= 0 => {
            errors.push(Error::invalid(&place, count, "must be greater than zero"));
        }
        _ => {}
    }
    taint::judge_tolerations(request, at, errors);
}

fn declared(devices: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let (requests, place) = (devices.items("requests"), at.child("requests"));
    if declared::few(requests, REQUESTS, &place, errors) {
        declared::unique(requests, &["name"], "DeviceRequest", &place, errors);
        for (index, request) in requests.iter().enumerate() {
            declared_request(request, &place.index(index), errors);
        }
    }
    let (constraints, place) = (devices.items("constraints"), at.child("constraints"));
    if declared::few(constraints, CONSTRAINTS, &place, errors) {
        for (index, constraint) in constraints.iter().enumerate() {
            let place = place.index(index);
            declared::set(constraint, "requests", REQUESTS, &place, errors);
            for name in ["matchAttribute", "distinctAttribute"] {
                if let Some(full) = constraint.at(name).as_str() {
                    word::declared_full(full, &place.child(name), errors);
                }
            }
        }
    }
    let (configurations, place) = (devices.items("config"), at.child("config"));
    if declared::few(configurations, CONFIGURATIONS, &place, errors) {
        for (index, one) in configurations.iter().enumerate() {
            let place = place.index(index);
            declared::set(one, "requests", REQUESTS, &place, errors);
            configuration::declared(one, &place, errors);
        }
    }
}

fn declared_request(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if request.has("exactly") {
        declared_devices(request.at("exactly"), &at.child("exactly"), errors);
    }
    let (alternatives, place) = (request.items("firstAvailable"), at.child("firstAvailable"));
    if declared::few(alternatives, ALTERNATIVES, &place, errors) {
        declared::unique(alternatives, &["name"], "DeviceSubRequest", &place, errors);
        for (index, alternative) in alternatives.iter().enumerate() {
            let place = place.index(index);
            match alternative.text("deviceClassName") {
                "" => errors.push(Error::required(&place.child("deviceClassName"), "")),
                class => demand::subdomain(class, &place.child("deviceClassName"), errors),
            }
            declared_devices(alternative, &place, errors);
        }
    }
}

fn declared_devices(request: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    configuration::declared_selectors(request, at, errors);
    declared::optional_of(request, "allocationMode", &MODES, at, errors);
    taint::declared_tolerations(request, at, errors);
}
