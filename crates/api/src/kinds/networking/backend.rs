//! IngressBackend: a port of a service, or a reference to another object.

use serde_json::Value;

use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name,
    strategy::{ErrorList, Tree},
};

// upstream: pkg/apis/networking/validation/validation.go validateIngressBackend
pub(super) fn validate_ingress_backend(backend: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => errors.push(Error::invalid(
            at,
            "",
            "cannot set both resource and service backends",
        )),
        (true, false) => {
            validate_typed_local_object_reference(backend.at("resource"), &at.child("resource"), errors);
        }
        (false, true) => validate_service_backend(backend.at("service"), at, errors),
        (false, false) => errors.push(Error::invalid(at, "", "resource or service backend is required")),
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressTypedLocalObjectReference
fn validate_typed_local_object_reference(resource: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if resource.has("apiGroup") {
        let group = resource.text("apiGroup");
        field_checks::push_invalid(
            group,
            name::validate_dns1123_subdomain(group),
            &at.child("apiGroup"),
            errors,
        );
    }
    for field in ["kind", "name"] {
        field_checks::require_fields(resource, &[field], at, errors);
        field_checks::validate_path_segment_name(resource, field, at, errors);
    }
}

// upstream: pkg/apis/networking/validation/validation.go validateIngressBackend
fn validate_service_backend(service: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("service");
    match service.text("name") {
        "" => errors.push(Error::required(&field_path.child("name"), "")),
        name => field_checks::push_invalid(
            name,
            name::validate_dns1123_label(name),
            &field_path.child("name"),
            errors,
        ),
    }
    let port = service.at("port");
    let field_path = field_path.child("port");
    match (port.text("name"), port.int_or_zero("number")) {
        ("", 0) => errors.push(Error::required(at, "port name or number is required")),
        ("", number) => errors.extend(
            name::validate_port_number(number)
                .into_iter()
                .map(|msg| Error::invalid(&field_path.child("number"), number, msg)),
        ),
        (name, 0) => field_checks::push_invalid(
            name,
            name::validate_port_name(name),
            &field_path.child("name"),
            errors,
        ),
        _ => errors.push(Error::invalid(at, "", "cannot set both port name & port number")),
    }
}
