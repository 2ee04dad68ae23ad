//! Error statuses with the texts of an API server.

use kube::core::{
    Status,
    response::{StatusCause, StatusDetails},
};

use super::resource::ResourceId;

/// A failure without details.
pub(super) fn failure(code: u16, reason: &str, message: &str) -> Box<Status> {
    Box::new(Status::failure(message, reason).with_code(code))
}

/// A failure with the object in its details.
fn about(code: u16, reason: &str, message: &str, id: &ResourceId, name: &str) -> Box<Status> {
    Box::new(
        Status::failure(message, reason)
            .with_code(code)
            .with_details(StatusDetails {
                name: name.to_owned(),
                group: id.group.clone(),
                kind: id.plural.clone(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            }),
    )
}

/// The failure that a status code usually means.
pub(super) fn coded(code: u16) -> Box<Status> {
    let (reason, message) = match code {
        400 => ("BadRequest", "bad request"),
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "forbidden"),
        404 => ("NotFound", "the server could not find the requested resource"),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        409 => (
            "Conflict",
            "Operation cannot be fulfilled: the object has been modified",
        ),
        410 => (
            "Expired",
            "The resourceVersion for the provided watch is too old.",
        ),
        413 => ("RequestEntityTooLarge", "the request is too large"),
        422 => (
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        429 => ("TooManyRequests", "Too many requests, please try again later."),
        500 => ("InternalError", "Internal error occurred: injected fault"),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted",
        ),
        _ => ("", "injected fault"),
    };
    failure(code, reason, message)
}

pub(super) fn bad_request(message: &str) -> Box<Status> {
    failure(400, "BadRequest", message)
}

pub(super) fn not_found(id: &ResourceId, name: &str) -> Box<Status> {
    about(404, "NotFound", &format!("{id} {name:?} not found"), id, name)
}

pub(super) fn already_exists(id: &ResourceId, name: &str) -> Box<Status> {
    about(
        409,
        "AlreadyExists",
        &format!("{id} {name:?} already exists"),
        id,
        name,
    )
}

/// A conflict; `why` follows the colon.
pub(super) fn conflict(id: &ResourceId, name: &str, why: &str) -> Box<Status> {
    let message = format!("Operation cannot be fulfilled on {id} {name:?}: {why}");
    about(409, "Conflict", &message, id, name)
}

/// A conflict because the resource version is not the latest.
pub(super) fn modified(id: &ResourceId, name: &str) -> Box<Status> {
    conflict(
        id,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )
}

/// An invalid field.
pub(super) fn invalid(id: &ResourceId, kind: &str, name: &str, field: &str, why: &str) -> Box<Status> {
    let kind = match id.group.as_str() {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    };
    let mut status = about(
        422,
        "Invalid",
        &format!("{kind} {name:?} is invalid: {field}: {why}"),
        id,
        name,
    );
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: "FieldValueInvalid".to_owned(),
            message: why.to_owned(),
            field: field.to_owned(),
        });
    }
    status
}

/// The requested version is older than the history.
pub(super) fn expired(asked: u64, oldest: u64) -> Box<Status> {
    failure(
        410,
        "Expired",
        &format!("too old resource version: {asked} ({oldest})"),
    )
}

/// The requested version is in the future.
pub(super) fn too_large(asked: u64, current: u64) -> Box<Status> {
    let message = format!("Too large resource version: {asked}, current: {current}");
    let mut status = failure(504, "Timeout", &message);
    status.details = Some(StatusDetails {
        causes: vec![StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: 1,
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
    });
    status
}
