//! The words programs look for in a status.

use crate::go;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusReason {
    /// Nobody can tell; left out of the answer.
    Unknown,
    /// Nobody knows who asks.
    Unauthorized,
    /// The one who asks may not.
    Forbidden,
    /// It does not exist.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// It was changed meanwhile, or others own parts of it.
    Conflict,
    /// It was here, and is no more.
    Gone,
    /// It breaks rules of its kind.
    Invalid,
    /// It will not be done in time; try again.
    ServerTimeout,
    /// The store is down for a while; try elsewhere.
    StoreReadError,
    /// It took too long, and may still be done.
    Timeout,
    /// Slow down.
    TooManyRequests,
    /// The request cannot be understood.
    BadRequest,
    /// The resource has no such verb.
    MethodNotAllowed,
    /// No form the client accepts can be served.
    NotAcceptable,
    /// The body is too large.
    RequestEntityTooLarge,
    /// The body is of a form that is not read here.
    UnsupportedMediaType,
    /// The server is at fault.
    InternalError,
    /// The revision asked for is forgotten.
    Expired,
    /// The server, or one behind it, cannot serve now.
    ServiceUnavailable,
}

// --- Reason ---

impl StatusReason {
    /// The word; empty if unknown.
    pub fn word(self) -> &'static str {
        match self {
            StatusReason::Unknown => "",
            StatusReason::Unauthorized => "Unauthorized",
            StatusReason::Forbidden => "Forbidden",
            StatusReason::NotFound => "NotFound",
            StatusReason::AlreadyExists => "AlreadyExists",
            StatusReason::Conflict => "Conflict",
            StatusReason::Gone => "Gone",
            StatusReason::Invalid => "Invalid",
            StatusReason::ServerTimeout => "ServerTimeout",
            StatusReason::StoreReadError => "StorageReadError",
            StatusReason::Timeout => "Timeout",
            StatusReason::TooManyRequests => "TooManyRequests",
            StatusReason::BadRequest => "BadRequest",
            StatusReason::MethodNotAllowed => "MethodNotAllowed",
            StatusReason::NotAcceptable => "NotAcceptable",
            StatusReason::RequestEntityTooLarge => "RequestEntityTooLarge",
            StatusReason::UnsupportedMediaType => "UnsupportedMediaType",
            StatusReason::InternalError => "InternalError",
            StatusReason::Expired => "Expired",
            StatusReason::ServiceUnavailable => "ServiceUnavailable",
        }
    }
}

/// What an HTTP code means, and what to say when nothing better is known.
pub(super) fn of_code(code: u16, server_message: &str) -> (StatusReason, String) {
    let (reason, message) = match code {
        400 => (
            StatusReason::BadRequest,
            "the server rejected our request for an unknown reason",
        ),
        401 => (
            StatusReason::Unauthorized,
            "the server has asked for the client to provide credentials",
        ),
        403 => (StatusReason::Forbidden, server_message),
        404 => (
            StatusReason::NotFound,
            "the server could not find the requested resource",
        ),
        405 => (
            StatusReason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        ),
        406 if matches!(server_message, "" | "unknown") => (
            StatusReason::NotAcceptable,
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => (StatusReason::NotAcceptable, server_message),
        409 => (StatusReason::Conflict, "the server reported a conflict"),
        415 => (StatusReason::UnsupportedMediaType, server_message),
        422 => (
            StatusReason::Invalid,
            "the server rejected our request due to an error in our request",
        ),
        429 => (
            StatusReason::TooManyRequests,
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            StatusReason::ServiceUnavailable,
            "the server is currently unable to handle the request",
        ),
        504 => (
            StatusReason::Timeout,
            "the server was unable to return a response in the time allotted, but may still be processing the \
             request",
        ),
        500.. => {
            let said = go::quote(server_message);
            let message =
                format!("an error on the server ({said}) has prevented the request from succeeding");
            return (StatusReason::InternalError, message);
        }
        _ => {
            let message = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            return (StatusReason::Unknown, message);
        }
    };
    (reason, message.to_owned())
}
