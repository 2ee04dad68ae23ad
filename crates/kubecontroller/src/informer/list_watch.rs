//! The source of an informer: list and watch.

use std::{sync::Arc, time::Duration};

use futures_util::stream::BoxStream;

use crate::Key;

/// Lists and watches objects: client-go's `ListerWatcher`. The API of a cluster is one, a stream of `kube`'s watcher
/// ([`WatcherStream`](super::WatcherStream)) is another, and a program may implement its own.
pub trait ListWatch<T>: Send + 'static {
    /// Starts a list or a watch. A stream that ends without an error timed out as expected; the informer continues from the
    /// last version it has seen.
    fn open(&mut self, start: ListWatchStart) -> BoxStream<'static, Result<WatchEvent<T>, ListWatchError>>;
}

/// Where a [`ListWatch`] starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWatchStart {
    /// With a list of the current objects.
    List {
        /// Whether the list must be consistent: at least as new as every write before the request (`resourceVersion` unset). If
        /// false, the server may answer from its watch cache (`resourceVersion=0`).
        consistent: bool,
    },
    /// With the changes after a resource version.
    Version(String),
}

/// An event of a [`ListWatch`].
#[derive(Debug)]
pub enum WatchEvent<T: ?Sized> {
    /// A list starts. Objects that it does not return do not exist any more.
    ListStarted,
    /// Some objects of the list.
    ListItems(Vec<Arc<T>>),
    /// The list is complete, and the watch continues from its version.
    ListComplete {
        /// The resource version of the list; empty if versions of this source cannot be resumed from.
        version: String,
    },
    /// An object was added or modified.
    Applied(Arc<T>),
    /// An object was deleted; this is its final state.
    Deleted(Arc<T>),
    /// All events up to a version have been sent.
    Bookmark {
        /// The resource version.
        version: String,
    },
    /// An object was received that does not decode as the stored type. The store keeps its last known state.
    Undecodable {
        /// The key of the object.
        key: Key,
        /// Its resource version.
        version: String,
        /// Why it does not decode.
        error: String,
    },
}

/// Why a [`ListWatch`] stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListWatchError {
    /// The server no longer has the changes after this version (HTTP status 410), so the informer relists.
    #[error("the resource version has expired: {0}")]
    Expired(String),
    /// The server responded with an error status.
    #[error("{message} ({code})")]
    Rejected {
        /// The HTTP status code.
        code: u16,
        /// The message of the response.
        message: String,
        /// The `Retry-After` of the response.
        retry_after: Option<Duration>,
    },
    /// The connection failed, or its contents could not be decoded.
    #[error("{0}")]
    Failed(String),
    /// There are more objects than [`InformerOptions::max_objects`](super::InformerOptions::max_objects).
    #[error("there are more than {limit} objects, the maximum for this informer (max_objects)")]
    TooManyObjects {
        /// The maximum.
        limit: usize,
    },
    /// The source has ended and will never send anything again.
    #[error("the source has ended")]
    Ended,
}
