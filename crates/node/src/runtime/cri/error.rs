//! Errors of CRI calls.

use std::{error::Error, path::Path, time::Duration};

use tonic::{Code, Status};

use crate::runtime::RuntimeError;

/// Error of a CRI call.
#[derive(Debug)]
pub(super) enum CriError {
    /// gRPC status, from the runtime or the transport.
    Status(Box<Status>),
    /// Timeout.
    Timeout(Duration),
}

/// Format of the message for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageFormat {
    /// The runtime's message, as in events of containers.
    Plain,
    /// With the gRPC code, as in events of sandboxes.
    WithCode,
}

// --- CriError ---

impl CriError {
    /// Returns whether the object does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    /// Returns whether the runtime lacks the method.
    pub(super) fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// Returns the runtime's message; empty for a timeout.
    pub(super) fn message(&self) -> &str {
        match self {
            CriError::Status(status) => status.message(),
            CriError::Timeout(_) => "",
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            CriError::Status(status) => Some(status.code()),
            CriError::Timeout(_) => None,
        }
    }

    /// Converts to a runtime error of operation `what`.
    pub(super) fn into_runtime_error(
        self,
        what: &str,
        limit: Duration,
        socket: &Path,
        format: MessageFormat,
    ) -> RuntimeError {
        let status = match self {
            CriError::Status(status) => status,
            CriError::Timeout(after) => {
                return RuntimeError::Timeout {
                    what: what.to_owned(),
                    after,
                };
            }
        };
        if is_transport(&status) {
            return RuntimeError::Unreachable {
                runtime: format!("the container runtime at {}", socket.display()),
                reason: root_cause(&status),
            };
        }
        let message = match format {
            MessageFormat::Plain => status.message().to_owned(),
            MessageFormat::WithCode => message_with_code(&status),
        };
        match status.code() {
            Code::NotFound => RuntimeError::NotFound(message),
            Code::DeadlineExceeded => RuntimeError::Timeout {
                what: what.to_owned(),
                after: limit,
            },
            Code::Unimplemented => RuntimeError::Unsupported(message),
            _ => RuntimeError::OperationFailed(message),
        }
    }

    /// Converts to a runtime error of an image pull.
    // upstream: pkg/kubelet/images/image_manager.go evalCRIPullErr
    pub(super) fn into_pull_error(self, image: &str, limit: Duration, socket: &Path) -> RuntimeError {
        let status = match &self {
            CriError::Status(status) if !is_transport(status) => status,
            _ => {
                return self.into_runtime_error(
                    &format!("pull of image \"{image}\""),
                    limit,
                    socket,
                    MessageFormat::WithCode,
                );
            }
        };
        // The code Unknown is omitted, as upstream does.
        let message = match status.code() {
            Code::Unknown => status.message().to_owned(),
            _ => message_with_code(status),
        };
        let plain = status.message();
        if plain.contains("invalid reference format") || plain.contains("failed to parse image reference") {
            RuntimeError::InvalidImageName(message)
        } else if let Some(rest) = plain.strip_prefix("RegistryUnavailable") {
            RuntimeError::RegistryUnavailable(format!(
                "image pull failed for {image} because the registry is unavailable{rest}"
            ))
        } else if let Some(rest) = plain.strip_prefix("SignatureValidationFailed") {
            RuntimeError::ImagePull(format!(
                "image pull failed for {image} because the signature validation failed{rest}"
            ))
        } else {
            RuntimeError::ImagePull(message)
        }
    }
}

/// Returns whether the transport failed, rather than the call.
fn is_transport(status: &Status) -> bool {
    status.source().is_some() || status.code() == Code::Unavailable
}

/// Returns the root cause: `No such file or directory` rather than `transport error`.
fn root_cause(status: &Status) -> String {
    let mut reason = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        reason = error.to_string();
        source = error.source();
    }
    reason
}

/// Formats a status like gRPC in Go, which users of Kubernetes know.
fn message_with_code(status: &Status) -> String {
    let code = match status.code() {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    fn failure(code: Code, message: &str) -> CriError {
        CriError::Status(Box::new(Status::new(code, message)))
    }

    fn explained(code: Code, message: &str) -> RuntimeError {
        failure(code, message).into_runtime_error("it", LIMIT, Path::new("/x.sock"), MessageFormat::Plain)
    }

    fn pulled(code: Code, message: &str) -> RuntimeError {
        failure(code, message).into_pull_error("app:1", LIMIT, Path::new("/x.sock"))
    }

    #[test]
    fn maps_codes_to_runtime_errors() {
        assert!(
            matches!(explained(Code::NotFound, "missing"), RuntimeError::NotFound(message) if message == "missing")
        );
        assert!(matches!(
            explained(Code::Unimplemented, "no"),
            RuntimeError::Unsupported(_)
        ));
        assert!(
            matches!(explained(Code::Unknown, "oops"), RuntimeError::OperationFailed(message) if message == "oops")
        );
        assert!(matches!(
            explained(Code::Unavailable, "closing"),
            RuntimeError::Unreachable { .. }
        ));
        let timeout = explained(Code::DeadlineExceeded, "context deadline exceeded");
        assert_eq!(timeout.to_string(), "it: context deadline exceeded");
        let timeout = CriError::Timeout(LIMIT).into_runtime_error(
            "it",
            LIMIT,
            Path::new("/x.sock"),
            MessageFormat::Plain,
        );
        assert_eq!(timeout.to_string(), "it: context deadline exceeded");
    }

    #[test]
    fn sandbox_errors_include_the_code() {
        let error = failure(Code::Unknown, "no network").into_runtime_error(
            "it",
            LIMIT,
            Path::new("/x.sock"),
            MessageFormat::WithCode,
        );
        assert_eq!(error.to_string(), "rpc error: code = Unknown desc = no network");
    }

    #[test]
    fn classifies_pull_errors() {
        let error = pulled(Code::Unknown, "not found");
        assert!(matches!(&error, RuntimeError::ImagePull(message) if message == "not found"));
        let error = pulled(Code::NotFound, "not found");
        assert_eq!(error.to_string(), "rpc error: code = NotFound desc = not found");
        let error = pulled(Code::Unknown, "RegistryUnavailable: dial tcp: refused");
        assert!(matches!(&error, RuntimeError::RegistryUnavailable(message)
            if message == "image pull failed for app:1 because the registry is unavailable: dial tcp: refused"));
        let error = pulled(
            Code::Unknown,
            "failed to parse image reference \"A\": invalid reference format",
        );
        assert!(matches!(error, RuntimeError::InvalidImageName(_)));
    }
}
