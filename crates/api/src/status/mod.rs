//! `metav1.Status`: the response of a failed request, and of a delete.
//!
//! Promises: each constructor gives the code, reason, details and message clients of the API know; the fields
//! are written in the order they are known in, and those without content are left out.

// upstream: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go NewNotFound, NewInvalid, NewConflict, NewApplyConflict, NewGenericServerResponse

mod reason;
mod wire;

use std::fmt;

pub use self::reason::StatusReason;
use crate::{
    field, go,
    limits::{self, MAX_CAUSES_BYTES, MAX_NAME_BYTES},
};

/// A status of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code; 0 is left out, as in the answer to a delete.
    pub code: u16,
    /// The word programs look for; `Unknown` is left out.
    pub reason: StatusReason,
    /// A reason defined by another component; empty if there is none.
    pub word: Box<str>,
    /// What people read.
    pub message: String,
    /// What it is about. Some answers carry details without content: `Some` of the default.
    pub details: Option<Box<StatusDetails>>,
    /// Whether it reports a success.
    pub success: bool,
    /// Where a list continues: the token that a `410` offers to continue with.
    pub continue_token: String,
    /// Warnings for the client, sent in headers.
    pub warnings: Box<[String]>,
}

/// What a status is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusDetails {
    /// The name of the object.
    pub name: String,
    /// The API group.
    pub group: String,
    /// The kind, or the resource.
    pub kind: String,
    /// The UID of the object.
    pub uid: String,
    /// The causes.
    pub causes: Vec<StatusCause>,
    /// After how many seconds to try again; 0 is left out.
    pub retry_after_seconds: u32,
}

/// One cause of a status (`metav1.StatusCause`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusCause {
    /// The word programs look for.
    pub reason: String,
    /// What people read.
    pub message: String,
    /// The location of the field.
    pub field: String,
}

/// A group with one of its resources or kinds: `deployments.apps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupResource<'n> {
    /// The API group; empty for the core.
    pub group: &'n str,
    /// The resource, or the kind.
    pub name: &'n str,
}

// --- GroupResource ---

impl<'n> GroupResource<'n> {
    /// A resource or kind of a group.
    pub fn new(group: &'n str, name: &'n str) -> Self {
        GroupResource { group, name }
    }

    fn is_empty(&self) -> bool {
        self.group.is_empty() && self.name.is_empty()
    }

    fn details(self, name: &str) -> StatusDetails {
        StatusDetails {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.name.to_owned(),
            ..StatusDetails::default()
        }
    }
}

impl fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{}", self.group)
        }
    }
}

// --- StatusCause ---

impl StatusCause {
    /// How many bytes it takes as JSON.
    fn encoded_length(&self) -> usize {
        // The names of the fields, and what stands between them.
        const FRAME: usize = 40;
        let texts = [&self.reason, &self.message, &self.field];
        FRAME
            + texts
                .map(|text| limits::encoded_length(text))
                .iter()
                .sum::<usize>()
    }
}

impl From<&field::Error> for StatusCause {
    fn from(error: &field::Error) -> Self {
        StatusCause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.field.clone(),
        }
    }
}

// --- Status ---

impl Status {
    /// The object does not exist.
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{resource} {} not found", go::quote(name));
        Self::about(404, StatusReason::NotFound, message, resource.details(name))
    }

    /// An object of this name exists.
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{resource} {} already exists", go::quote(name));
        Self::about(409, StatusReason::AlreadyExists, message, resource.details(name))
    }

    /// Names were made up, and each of them exists.
    pub fn generate_name_conflict(resource: GroupResource<'_>, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            go::quote(name)
        );
        let details = StatusDetails {
            retry_after_seconds,
            ..resource.details(name)
        };
        Self::about(409, StatusReason::AlreadyExists, message, details)
    }

    /// The client is not authenticated.
    pub fn unauthorized(message: &str) -> Self {
        let message = if message.is_empty() {
            "not authorized"
        } else {
            message
        };
        Self::bare(401, StatusReason::Unauthorized, message)
    }

    /// The one who asks may not.
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: impl fmt::Display) -> Self {
        let message = if resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", go::quote(name))
        };
        Self::about(403, StatusReason::Forbidden, message, resource.details(name))
    }

    /// The object is not what the one who asks took it for.
    pub fn conflict(resource: GroupResource<'_>, name: &str, why: impl fmt::Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {resource} {}: {why}",
            go::quote(name)
        );
        Self::about(409, StatusReason::Conflict, message, resource.details(name))
    }

    /// Others own fields that an apply sets.
    pub fn apply_conflict(causes: Vec<StatusCause>, message: impl Into<String>) -> Self {
        Self::about(
            409,
            StatusReason::Conflict,
            message,
            StatusDetails {
                causes,
                ..StatusDetails::default()
            },
        )
    }

    /// The object was here, and is no more.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::bare(410, StatusReason::Gone, message)
    }

    /// The revision asked for is forgotten.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::bare(410, StatusReason::Expired, message)
    }

    /// The object breaks rules of its kind.
    pub fn invalid(kind: GroupResource<'_>, name: &str, errors: &[field::Error]) -> Self {
        Self::invalid_with_omitted(kind, name, errors, 0)
    }

    /// The same where so many errors were not kept. The message and the causes are bounded.
    pub fn invalid_with_omitted(
        kind: GroupResource<'_>,
        name: &str,
        errors: &[field::Error],
        omitted: usize,
    ) -> Self {
        let name = &*limits::cut(name, MAX_NAME_BYTES);
        let mut message = format!("{kind} {} is invalid", go::quote(name));
        if let Some(text) = field::aggregate_with_omitted(errors, omitted) {
            message.push_str(": ");
            message.push_str(&text);
        }
        let mut causes = Vec::new();
        let mut bytes = 0;
        for error in errors {
            let cause = StatusCause::from(error);
            bytes += cause.encoded_length();
            if bytes > MAX_CAUSES_BYTES && !causes.is_empty() {
                break;
            }
            causes.push(cause);
        }
        let details = StatusDetails {
            causes,
            ..kind.details(name)
        };
        Self::about(422, StatusReason::Invalid, message, details)
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::bare(400, StatusReason::BadRequest, message)
    }

    /// The one who asks should slow down, by the message as it is.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let details = StatusDetails {
            retry_after_seconds,
            ..StatusDetails::default()
        };
        Self::about(429, StatusReason::TooManyRequests, message, details)
    }

    /// The client should slow down; there is no Retry-After.
    pub fn too_many(message: impl fmt::Display) -> Self {
        Self::bare(
            429,
            StatusReason::TooManyRequests,
            format!("Too many requests: {message}"),
        )
    }

    /// The server, or one behind it, cannot serve now.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::bare(503, StatusReason::ServiceUnavailable, message)
    }

    /// The resource has no such verb.
    pub fn method_not_supported(resource: GroupResource<'_>, action: &str) -> Self {
        let kind = go::quote(&resource.to_string());
        let message = format!("{action} is not supported on resources of kind {kind}");
        Self::about(405, StatusReason::MethodNotAllowed, message, resource.details(""))
    }

    /// None of the forms the client accepts can be served.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::bare(406, StatusReason::NotAcceptable, message)
    }

    /// The body is of a form that is not read here.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::bare(415, StatusReason::UnsupportedMediaType, message)
    }

    /// The body is too large.
    pub fn request_entity_too_large(message: impl fmt::Display) -> Self {
        Self::bare(
            413,
            StatusReason::RequestEntityTooLarge,
            format!("Request entity too large: {message}"),
        )
    }

    /// The server knows that it will not be done in time.
    pub fn server_timeout(resource: GroupResource<'_>, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        let details = StatusDetails {
            retry_after_seconds,
            ..resource.details(operation)
        };
        Self::about(500, StatusReason::ServerTimeout, message, details)
    }

    /// It took too long, and may still be done.
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Self {
        let details = StatusDetails {
            retry_after_seconds,
            ..StatusDetails::default()
        };
        Self::about(504, StatusReason::Timeout, format!("Timeout: {message}"), details)
    }

    /// Internal server error.
    pub fn internal_error(why: impl fmt::Display) -> Self {
        let cause = StatusCause {
            message: why.to_string(),
            ..StatusCause::default()
        };
        let details = StatusDetails {
            causes: vec![cause],
            ..StatusDetails::default()
        };
        Self::about(
            500,
            StatusReason::InternalError,
            format!("Internal error occurred: {why}"),
            details,
        )
    }

    /// The server failed with no more to say than a message.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::bare(500, StatusReason::Unknown, message)
    }

    /// The status of an HTTP code alone, with details that are there and empty.
    pub fn generic(code: u16, server_message: &str) -> Self {
        let (reason, message) = reason::of_code(code, server_message);
        Self::about(code, reason, message, StatusDetails::default())
    }

    /// Something was done, and this is what it was done to.
    pub fn success(details: StatusDetails) -> Self {
        Status {
            details: Some(Box::new(details)),
            success: true,
            ..Self::bare(0, StatusReason::Unknown, "")
        }
    }

    fn about(code: u16, reason: StatusReason, message: impl Into<String>, details: StatusDetails) -> Self {
        Status {
            details: Some(Box::new(details)),
            ..Self::bare(code, reason, message)
        }
    }

    fn bare(code: u16, reason: StatusReason, message: impl Into<String>) -> Self {
        Status {
            code,
            reason,
            word: Box::default(),
            message: message.into(),
            details: None,
            success: false,
            continue_token: String::new(),
            warnings: Box::default(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests;
