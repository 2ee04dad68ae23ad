//! Errors, one enum per operation.

use std::{error::Error as StdError, path::PathBuf, sync::Arc};

use crate::{Entry, Key, Revision};

/// An error of the store itself, in any operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database is unreachable or does not respond. A retry may succeed.
    #[error("the {backend} store is not available: {message}")]
    Unavailable {
        /// The backend.
        backend: &'static str,
        /// The error message.
        message: String,
        /// The cause, if known.
        #[source]
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// No space left. Reads still work; writes work again once there is space.
    #[error("no space left for the store in {location}: {message}; free some space and writes will go on")]
    Full {
        /// The directory or the server.
        location: String,
        /// Details.
        message: String,
    },
    /// The data is corrupt: it differs from what was written.
    #[error("the store is damaged: {0}; restore it from a snapshot")]
    Corrupt(String),
    /// An import into this store was started and did not finish.
    #[error("an import into this store did not finish, so what it holds is incomplete; run the import again")]
    UnfinishedImport,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

/// An error of a read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The requested revision was compacted.
    #[error("revision {requested} is compacted, the oldest kept is {oldest}; read the newest state instead")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest readable revision.
        oldest: Revision,
    },
    /// The requested revision is in the future.
    #[error("revision {requested} is ahead of the store, which is at {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The current revision of the store.
        current: Revision,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The error that prevented or ended a watch.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Events after the requested revision were compacted.
    #[error("events after revision {after} are compacted, the oldest kept follow {oldest}; list again")]
    Compacted {
        /// The requested revision.
        after: Revision,
        /// The oldest revision after which a watch can start.
        oldest: Revision,
    },
    /// The requested revision is in the future.
    #[error("revision {after} is ahead of the store, which is at {current}")]
    Future {
        /// The requested revision.
        after: Revision,
        /// The current revision of the store.
        current: Revision,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error of a write.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The precondition failed; contains the current entry of the key.
    #[error("the key holds another state than expected: {}", describe(.0.as_ref()))]
    Conflict(Option<Entry>),
    /// The value is too large.
    #[error("the value of {key} has {bytes} bytes, more than the store takes")]
    TooLarge {
        /// The key.
        key: Key,
        /// The size of the value.
        bytes: usize,
    },
    /// No response after the write was sent: it may or may not have been applied. Read the key to find out.
    #[error("it is not known whether the write happened")]
    Uncertain(#[source] StoreError),
    /// An error of the store; the write was not applied.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error of opening a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the store open.
    #[error("{} is in use by {holder}; stop that process first, or choose another data directory", .directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The process that holds the lock, if known.
        holder: String,
    },
    /// The data was written by a newer program.
    #[error(
        "{location} has data of format {found}, this program reads up to {known}; use a newer k3 than {}, or restore \
         a snapshot that was saved before the upgrade",
        env!("CARGO_PKG_VERSION")
    )]
    NewerFormat {
        /// The location of the data.
        location: String,
        /// The format version of the data.
        found: u32,
        /// The newest supported format version.
        known: u32,
    },
    /// A setting is invalid.
    #[error("{setting}: {reason}")]
    InvalidSetting {
        /// The name of the setting.
        setting: &'static str,
        /// Why it is invalid.
        reason: String,
    },
    /// A file or directory cannot be used.
    #[error("cannot use {}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An error of an import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The target store is not empty.
    #[error("the target store is not empty; an import would mix two clusters")]
    NotEmpty,
    /// A later import into the store replaced this one.
    #[error("the import was begun again, and only the newer one can be finished")]
    Superseded,
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// --- StoreError ---

impl StoreError {
    /// The error of an unreachable store, with the cause.
    pub(crate) fn unavailable(
        backend: &'static str,
        message: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        Self::Unavailable {
            backend,
            message: message.into(),
            source: Some(Arc::new(source)),
        }
    }
}

fn describe(entry: Option<&Entry>) -> String {
    match entry {
        Some(entry) => format!("{} at revision {}", entry.key, entry.revision),
        None => "nothing".to_owned(),
    }
}
