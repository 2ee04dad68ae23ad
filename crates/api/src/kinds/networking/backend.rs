//! Where an Ingress sends requests: a port of a service, or another object.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::demand,
    name,
    strategy::{ErrorList, Tree},
};

/// What is wrong with a backend.
pub(super) fn validate(backend: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => errors.push(Error::invalid(
            at,
            "",
            "cannot set both resource and service backends",
        )),
        (true, false) => reference(backend.at("resource"), &at.child("resource"), errors),
        (false, true) => service(backend.at("service"), at, errors),
        (false, false) => errors.push(Error::invalid(at, "", "resource or service backend is required")),
    }
}

fn reference(resource: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if resource.has("apiGroup") {
        let group = resource.text("apiGroup");
        demand::tell(
            group,
            name::validate_dns1123_subdomain(group),
            &at.child("apiGroup"),
            errors,
        );
    }
    for field in ["kind", "name"] {
        demand::required(resource, &[field], at, errors);
        demand::path_segment(resource, field, at, errors);
    }
}

fn service(service: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let place = at.child("service");
    match service.text("name") {
        "" => errors.push(Error::required(&place.child("name"), "")),
        name => demand::tell(name, name::validate_dns1123_label(name), &place.child("name"), errors),
    }
    let port = service.at("port");
    let place = place.child("port");
    match (port.text("name"), port.int("number").unwrap_or_default()) {
        ("", 0) => errors.push(Error::required(at, "port name or number is required")),
        ("", number) => errors.extend(
            name::validate_port_number(number)
                .into_iter()
                .map(|fault| Error::invalid(&place.child("number"), number, fault)),
        ),
        (name, 0) => demand::tell(name, name::validate_port_name(name), &place.child("name"), errors),
        _ => errors.push(Error::invalid(at, "", "cannot set both port name & port number")),
    }
}
