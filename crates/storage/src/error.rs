//! What can fail, one enum per operation.

use std::{error::Error as StdError, path::PathBuf, sync::Arc};

use crate::{Entry, Key, Revision};

/// A failure of the store itself, whatever was requested of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be reached, or does not answer. Asking again may help.
    #[error("the {backend} store is not available: {message}")]
    Unavailable {
        /// Which backend.
        backend: &'static str,
        /// What it said.
        message: String,
        /// The cause, when there is one.
        #[source]
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// There is no space for more. Reads continue, and writes do as soon as there is space.
    #[error("no space left for the store in {location}: {message}; free some space and writes will go on")]
    Full {
        /// The directory or the server.
        location: String,
        /// What is missing.
        message: String,
    },
    /// What was read is not what was written.
    #[error("the store is damaged: {0}; restore it from a snapshot")]
    Corrupt(String),
    /// An import into this store has begun and has not finished.
    #[error("an import into this store did not finish, so what it holds is incomplete; run the import again")]
    UnfinishedImport,
    /// The store was closed by its owner.
    #[error("the store is closed")]
    Closed,
}

/// Why a read failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The revision requested for is no longer kept.
    #[error("revision {requested} is compacted, the oldest kept is {oldest}; read the newest state instead")]
    Compacted {
        /// The revision requested for.
        requested: Revision,
        /// The oldest that can be read.
        oldest: Revision,
    },
    /// The revision requested for has not happened yet.
    #[error("revision {requested} is ahead of the store, which is at {current}")]
    Future {
        /// The revision requested for.
        requested: Revision,
        /// Where the store stands.
        current: Revision,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a watch could not begin, or ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Events behind the requested revision are no longer kept.
    #[error("events after revision {after} are compacted, the oldest kept follow {oldest}; list again")]
    Compacted {
        /// What was requested for.
        after: Revision,
        /// The oldest revision a watch can follow.
        oldest: Revision,
    },
    /// The revision requested for has not happened yet.
    #[error("revision {after} is ahead of the store, which is at {current}")]
    Future {
        /// What was requested for.
        after: Revision,
        /// Where the store stands.
        current: Revision,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a write did not happen, or may not have.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Something else is under the key than was expected; here it is.
    #[error("the key holds another state than expected: {}", describe(.0.as_ref()))]
    Conflict(Option<Entry>),
    /// The value is over the limit.
    #[error("the value of {key} has {bytes} bytes, more than the store takes")]
    TooLarge {
        /// The key.
        key: Key,
        /// The size of the value.
        bytes: usize,
    },
    /// The store stopped answering after the write was sent: it may or may not have happened. Read
    /// the key to find out.
    #[error("it is not known whether the write happened")]
    Uncertain(#[source] StoreError),
    /// The store failed, and the write did not happen.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by {holder}; stop that process first, or choose another data directory", .directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// Who holds it, as far as is known.
        holder: String,
    },
    /// The data was written by a newer program.
    #[error(
        "{location} has data of format {found}, this program reads up to {known}; use a newer k3 than {}, or restore \
         a snapshot that was saved before the upgrade",
        env!("CARGO_PKG_VERSION")
    )]
    NewerFormat {
        /// Where the data is.
        location: String,
        /// Its format.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// A setting is invalid.
    #[error("{setting}: {reason}")]
    InvalidSetting {
        /// Which one.
        setting: &'static str,
        /// What is wrong with it.
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
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The target holds entries already.
    #[error("the target store is not empty; an import would mix two clusters")]
    NotEmpty,
    /// Another import into the store was begun after this one.
    #[error("the import was begun again, and only the newer one can be finished")]
    Superseded,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// --- StoreError ---

impl StoreError {
    /// A store that cannot be reached, with the cause.
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
