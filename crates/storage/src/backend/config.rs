//! A configured store.

use std::{
    any::Any,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;

use super::{DatabaseConfig, StorageBackend};
use crate::{OpenError, Store};

/// A store that can be opened: the options of a backend.
#[async_trait]
pub trait StorageConfig: Any + fmt::Debug + Send + Sync {
    /// The backend.
    fn backend(&self) -> &'static dyn StorageBackend;

    /// Name of the backend and location of the store, without credentials.
    fn describe(&self) -> String;

    /// Opens the store. Must be called in a Tokio runtime, which runs the background tasks of the store.
    async fn open(&self) -> Result<Arc<dyn Store>, OpenError>;

    /// The directory that holds the store, for one that only a process of this machine can open.
    fn directory(&self) -> Option<&Path> {
        None
    }

    /// The database server that has the store.
    fn database(&self) -> Option<&dyn DatabaseConfig> {
        None
    }

    /// The same, to change it.
    fn database_mut(&mut self) -> Option<&mut dyn DatabaseConfig> {
        None
    }
}

/// Why values make no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// The values are invalid, or contradict each other.
    #[error("{problem}")]
    Invalid {
        /// What is invalid.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// The password file is unreadable.
    #[error("cannot read the password file {}", file.display())]
    PasswordFile {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

// --- ConfigureError ---

impl ConfigureError {
    /// Invalid values, and what to do.
    pub fn invalid(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Invalid {
            problem: problem.into(),
            advice: advice.into(),
        }
    }
}

/// Reads a password file, without a trailing line end.
pub fn read_password_file(file: &Path) -> Result<String, ConfigureError> {
    let text = fs::read_to_string(file).map_err(|source| ConfigureError::PasswordFile {
        file: file.to_owned(),
        source,
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
