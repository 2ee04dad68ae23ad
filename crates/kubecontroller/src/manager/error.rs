//! Why a program ends.

use std::time::Duration;

use super::{BoxError, ConfigError};

/// Why a manager, or the program around it, cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// It was told something that makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no way to the cluster.
    #[error("cannot make a client: {0}")]
    Client(#[source] BoxError),
    /// A callback, or the setup of a reconciler, failed.
    #[error("cannot set up {name}: {source}")]
    Setup {
        /// Of what.
        name: String,
        /// Why.
        source: BoxError,
    },
    /// A hook failed that is called when informers are synced.
    #[error("{name} failed when its informers were synced: {source}")]
    AfterSync {
        /// Whose.
        name: String,
        /// Why.
        source: BoxError,
    },
    /// An address is not to be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The first lists did not come in time.
    #[error("informers are not synced after {0:?}; is the API server there, and may they list?")]
    NotSynced(Duration),
    /// A part of the program failed.
    #[error("{name} failed: {source}")]
    Part {
        /// Which.
        name: String,
        /// Why.
        source: BoxError,
    },
}

impl ManagerError {
    /// What the process exits with: 2 if it was told wrong, 1 if it failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            ManagerError::Config(_) => 2,
            _ => 1,
        }
    }
}
