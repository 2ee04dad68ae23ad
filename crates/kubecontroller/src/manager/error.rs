//! Errors of managers.

use std::time::Duration;

use super::{BoxError, ConfigError};

/// Why a manager, or the program around it, ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client could not be created.
    #[error("failed to create the client: {0}")]
    Client(#[source] BoxError),
    /// A callback, or the setup of a reconciler, failed.
    #[error("setup of {name} failed: {source}")]
    Setup {
        /// The manager or the reconciler.
        name: String,
        /// The cause.
        source: BoxError,
    },
    /// An [`after_sync`](super::Setup::after_sync) hook failed.
    #[error("after_sync hook of {name} failed: {source}")]
    AfterSync {
        /// The reconciler.
        name: String,
        /// The cause.
        source: BoxError,
    },
    /// A listen address could not be bound.
    #[error("failed to listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The informer caches were not synced in time.
    #[error(
        "informer caches not synced after {0:?}: check the connection to the API server and the permission to list"
    )]
    CacheSyncTimeout(Duration),
    /// A manager panicked, or a runnable of the program failed or ended.
    #[error("{name} failed: {source}")]
    Runnable {
        /// The manager or the runnable.
        name: String,
        /// The cause.
        source: BoxError,
    },
}

impl ManagerError {
    /// The exit code of the process: 2 for configuration errors, 1 for all others.
    pub fn exit_code(&self) -> u8 {
        match self {
            ManagerError::Config(_) => 2,
            _ => 1,
        }
    }
}
