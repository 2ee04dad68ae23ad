//! The watch cache: stored objects in memory, and the events of their changes.
//!
//! ```text
//! watch_caches    the caches of all resources, and their revision
//! reflector       one watch of the whole store; applies each event to the cache of its resource, in order
//! store_snapshot  a complete state of the store while it is loaded
//! decryption      retries objects that could not be decrypted
//! atomic_revision a revision that threads share
//! version         counters of the states of the caches
//! waiters         requests that wait until a revision is applied
//! freshness       when the caches were last proven to include everything stored
//! watch_cache     the objects of one resource as a persistent map, a ring of recent events, the watchers
//! snapshot        the objects of one resource at one revision
//! watcher         the queue of one watcher, and its filter
//! watcher_index   the watchers of one resource, by what they look at
//! object          one state of one object: the stored bytes, and values derived from them on demand
//! field_values    the values of the fields that objects can be selected by
//! expected_commits  what a write knows of the object that it commits, until the commit arrives
//! parsed_trees    the trees of objects that were written a moment ago
//! projection      decoding of some fields of an object
//! event_window    recent events, for watches that start at an older resource version
//! event           one change, and its frames, encoded once for all watchers
//! ```
//!
//! Promises: a snapshot is taken without waiting for writers beyond a pointer's copy. A watcher gets every event after its
//! revision, once and in order, or an error that the revision is too old. A watcher that is too slow is closed and never blocks
//! others. Objects share their bytes with the store.
//!
//! When events are lost, because the store compacted them before they were read, the new state is loaded separately and replaces
//! the old one atomically, with the definitions of custom resources and the revision. All watches end with `410 Expired`. Until
//! then the old state stays, and consistent reads wait. Followers of the caches compare versions, which change with every
//! replacement.

mod atomic_revision;
mod decryption;
mod event;
mod event_window;
mod expected_commits;
mod field_values;
mod freshness;
mod object;
mod parsed_trees;
mod projection;
mod reflector;
mod snapshot;
mod store_snapshot;
#[cfg(test)]
mod tests;
mod version;
mod waiters;
mod watch_cache;
mod watch_caches;
mod watcher;
mod watcher_index;

pub(crate) use self::{
    event::{EventDelivery, EventType, FrameFormat, frame},
    expected_commits::ExpectedCommit,
    object::CachedObject,
    parsed_trees::ParsedTrees,
    reflector::StoreReflector,
    snapshot::Snapshot,
    version::{AtomicCachesVersion, CacheVersion, CachesVersion},
    watch_cache::{TooOldResourceVersion, WatchCache, WatchStart},
    watch_caches::{PROOF_TIME, StalenessError, WatchCaches},
    watcher::{CacheWatcher, WatchFilter},
};
