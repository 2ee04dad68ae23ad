//! Where objects and their changes come from.

use std::{sync::Arc, time::Duration};

use futures_util::stream::BoxStream;

use crate::Key;

/// Where objects and their changes come from. The API of a cluster is one; so is a stream of `kube`'s watcher
/// ([`WatcherStream`](super::WatcherStream)), and so may be anything else.
pub trait ListWatch<T>: Send + 'static {
    /// Begins to tell. A stream that ends without trouble was cut as expected, and is gone on with where it ended.
    fn open(&mut self, start: ListWatchStart) -> BoxStream<'static, Result<WatchEvent<T>, ListWatchError>>;
}

/// Where a source begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWatchStart {
    /// With a list of what there is.
    List {
        /// Whether the list has to be as new as anything written before it was asked for.
        consistent: bool,
    },
    /// With what came after a version.
    Version(String),
}

/// What a source tells.
#[derive(Debug)]
pub enum WatchEvent<T: ?Sized> {
    /// A list begins: what is not in it is gone.
    Restarted,
    /// Some objects of the list.
    Listed(Vec<Arc<T>>),
    /// The list is complete. The watch goes on at its version; a source whose versions mean nothing says nothing.
    Complete {
        /// The version of the list.
        version: String,
    },
    /// An object has been made or has changed.
    Applied(Arc<T>),
    /// An object is gone; this was its last state.
    Deleted(Arc<T>),
    /// Everything up to a version has been told.
    Reached {
        /// The version.
        version: String,
    },
    /// An object that cannot be read as what is kept of its kind. It is neither new nor gone: what is known of it stays.
    Unreadable {
        /// Its name.
        key: Key,
        /// Its version.
        version: String,
        /// Why.
        error: String,
    },
}

/// Why a source cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListWatchError {
    /// The version is no longer known: what happened since is found by a list.
    #[error("the version has expired: {0}")]
    Expired(String),
    /// The server said no.
    #[error("{message} ({code})")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What it said.
        message: String,
        /// When to ask again, if it said so.
        retry_after: Option<Duration>,
    },
    /// Something else: the connection, or what came over it.
    #[error("{0}")]
    Broken(String),
    /// There are more objects than may be held.
    #[error("there are more than {limit} objects, the most that may be held")]
    Full {
        /// How many may be held.
        limit: usize,
    },
    /// There is nothing more to come, ever.
    #[error("the source has ended")]
    Over,
}
