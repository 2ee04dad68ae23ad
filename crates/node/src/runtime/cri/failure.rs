//! Why a call of the runtime failed, and what the agent calls that.

use std::{error::Error, path::Path, time::Duration};

use tonic::{Code, Status};

use crate::runtime::RuntimeError;

/// A call that got no good answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The runtime, or the way to it, said so.
    Status(Box<Status>),
    /// Nothing came within the limit.
    Late(Duration),
}

/// Whose words a user is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Those of the runtime, as events about containers tell them.
    Plain,
    /// Those of the runtime with the code in front, as events about sandboxes tell them.
    Coded,
}

// --- Failure ---

impl Failure {
    /// Whether there is no such thing.
    pub(super) fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    /// Whether the runtime does not know the method.
    pub(super) fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// What the runtime said; empty if it said nothing.
    pub(super) fn message(&self) -> &str {
        match self {
            Failure::Status(status) => status.message(),
            Failure::Late(_) => "",
        }
    }

    fn code(&self) -> Option<Code> {
        match self {
            Failure::Status(status) => Some(status.code()),
            Failure::Late(_) => None,
        }
    }

    /// The same for those who called the runtime. `what` was asked for.
    pub(super) fn explain(self, what: &str, limit: Duration, socket: &Path, words: Words) -> RuntimeError {
        let status = match self {
            Failure::Status(status) => status,
            Failure::Late(after) => {
                return RuntimeError::Timeout {
                    what: what.to_owned(),
                    after,
                };
            }
        };
        if is_transport(&status) {
            return RuntimeError::Unreachable {
                runtime: format!("the container runtime at {}", socket.display()),
                reason: innermost(&status),
            };
        }
        let said = match words {
            Words::Plain => status.message().to_owned(),
            Words::Coded => coded(&status),
        };
        match status.code() {
            Code::NotFound => RuntimeError::NotFound(said),
            Code::DeadlineExceeded => RuntimeError::Timeout {
                what: what.to_owned(),
                after: limit,
            },
            Code::Unimplemented => RuntimeError::Unsupported(said),
            _ => RuntimeError::Refused(said),
        }
    }

    /// The same for a pull of an image.
    pub(super) fn explain_pull(self, image: &str, limit: Duration, socket: &Path) -> RuntimeError {
        let status = match &self {
            Failure::Status(status) if !is_transport(status) => status,
            _ => return self.explain(&format!("pull of image \"{image}\""), limit, socket, Words::Coded),
        };
        // A code that says nothing is left out, as upstream does.
        let said = match status.code() {
            Code::Unknown => status.message().to_owned(),
            _ => coded(status),
        };
        let plain = status.message();
        if plain.contains("invalid reference format") || plain.contains("failed to parse image reference") {
            RuntimeError::InvalidImageName(said)
        } else if let Some(rest) = plain.strip_prefix("RegistryUnavailable") {
            RuntimeError::RegistryUnavailable(format!(
                "image pull failed for {image} because the registry is unavailable{rest}"
            ))
        } else if let Some(rest) = plain.strip_prefix("SignatureValidationFailed") {
            RuntimeError::ImagePull(format!(
                "image pull failed for {image} because the signature validation failed{rest}"
            ))
        } else {
            RuntimeError::ImagePull(said)
        }
    }
}

/// Whether the call never arrived, or its answer did not.
fn is_transport(status: &Status) -> bool {
    status.source().is_some() || status.code() == Code::Unavailable
}

/// What lies at the bottom: `No such file or directory` rather than `transport error`.
fn innermost(status: &Status) -> String {
    let mut reason = status.message().to_owned();
    let mut source = status.source();
    while let Some(error) = source {
        reason = error.to_string();
        source = error.source();
    }
    reason
}

/// As clients of gRPC in Go print it, which is what users of Kubernetes know.
fn coded(status: &Status) -> String {
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

    fn failure(code: Code, message: &str) -> Failure {
        Failure::Status(Box::new(Status::new(code, message)))
    }

    fn explained(code: Code, message: &str) -> RuntimeError {
        failure(code, message).explain("it", LIMIT, Path::new("/x.sock"), Words::Plain)
    }

    fn pulled(code: Code, message: &str) -> RuntimeError {
        failure(code, message).explain_pull("app:1", LIMIT, Path::new("/x.sock"))
    }

    #[test]
    fn codes_become_what_the_agent_knows() {
        assert!(matches!(explained(Code::NotFound, "gone"), RuntimeError::NotFound(said) if said == "gone"));
        assert!(matches!(
            explained(Code::Unimplemented, "no"),
            RuntimeError::Unsupported(_)
        ));
        assert!(matches!(explained(Code::Unknown, "oops"), RuntimeError::Refused(said) if said == "oops"));
        assert!(matches!(
            explained(Code::Unavailable, "closing"),
            RuntimeError::Unreachable { .. }
        ));
        let late = explained(Code::DeadlineExceeded, "context deadline exceeded");
        assert_eq!(late.to_string(), "it: context deadline exceeded");
        let late = Failure::Late(LIMIT).explain("it", LIMIT, Path::new("/x.sock"), Words::Plain);
        assert_eq!(late.to_string(), "it: context deadline exceeded");
    }

    #[test]
    fn sandboxes_fail_with_the_code_in_front() {
        let error =
            failure(Code::Unknown, "no network").explain("it", LIMIT, Path::new("/x.sock"), Words::Coded);
        assert_eq!(error.to_string(), "rpc error: code = Unknown desc = no network");
    }

    #[test]
    fn pulls_tell_what_is_wrong_with_the_image() {
        let error = pulled(Code::Unknown, "not found");
        assert!(matches!(&error, RuntimeError::ImagePull(said) if said == "not found"));
        let error = pulled(Code::NotFound, "not found");
        assert_eq!(error.to_string(), "rpc error: code = NotFound desc = not found");
        let error = pulled(Code::Unknown, "RegistryUnavailable: dial tcp: refused");
        assert!(matches!(&error, RuntimeError::RegistryUnavailable(said)
            if said == "image pull failed for app:1 because the registry is unavailable: dial tcp: refused"));
        let error = pulled(
            Code::Unknown,
            "failed to parse image reference \"A\": invalid reference format",
        );
        assert!(matches!(error, RuntimeError::InvalidImageName(_)));
    }
}
