//! What can go wrong with a runtime.

use std::time::Duration;

/// Why a runtime did not do what it was asked for. The words reach users in events and statuses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Nobody answers. Everything is tried again later.
    #[error("cannot reach {runtime}: {reason}")]
    Unreachable {
        /// Which runtime, and where.
        runtime: String,
        /// What was tried, and what came of it.
        reason: String,
    },
    /// It answered that there is no such container, sandbox or image.
    #[error("{0}")]
    NotFound(String),
    /// Somebody else's container has the name. It is left alone.
    #[error("the container name \"{name}\" is taken by a container that is not of this node ({holder})")]
    NameTaken {
        /// The name.
        name: String,
        /// Its holder's id.
        holder: String,
    },
    /// The image cannot be had: not in the registry, or we may not read it.
    #[error("{0}")]
    ImagePull(String),
    /// The registry cannot be reached.
    #[error("{0}")]
    RegistryUnavailable(String),
    /// The reference of the image makes no sense.
    #[error("{0}")]
    InvalidImageName(String),
    /// It took too long, and was given up.
    #[error("{what}: context deadline exceeded")]
    Timeout {
        /// What was asked for.
        what: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// This runtime cannot do that.
    #[error("{0}")]
    Unsupported(String),
    /// It refused, in its own words.
    #[error("{0}")]
    Refused(String),
}
