//! Errors of container runtimes.

use std::time::Duration;

/// Error of a runtime call. The message reaches users in events and statuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No response: the runtime does not listen, or the connection broke. Callers retry.
    #[error("cannot reach {runtime}: {reason}")]
    Unreachable {
        /// Runtime and socket.
        runtime: String,
        /// Cause.
        reason: String,
    },
    /// The runtime has no such container, sandbox or image.
    #[error("{0}")]
    NotFound(String),
    /// A container of another owner has the name. It is not touched.
    #[error(
        "the container name \"{name}\" is in use by container {holder}, which does not belong to this node"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// ID of the container that has the name.
        holder: String,
    },
    /// The image cannot be pulled: not in the registry, or no permission.
    #[error("{0}")]
    ImagePull(String),
    /// The registry is unreachable.
    #[error("{0}")]
    RegistryUnavailable(String),
    /// The image reference is invalid.
    #[error("{0}")]
    InvalidImageName(String),
    /// The call exceeded its timeout.
    #[error("{what}: context deadline exceeded")]
    Timeout {
        /// Operation.
        what: String,
        /// Timeout.
        after: Duration,
    },
    /// The runtime does not support the operation.
    #[error("{0}")]
    Unsupported(String),
    /// The runtime reported an error; its message.
    #[error("{0}")]
    OperationFailed(String),
}
