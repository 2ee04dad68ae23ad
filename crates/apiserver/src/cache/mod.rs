//! The watch cache: what is stored, in memory, and every change of it to whoever watches.
//!
//! ```text
//! caches      the caches of all resources, and how far they are
//! feed        one watch of the whole store; puts each event into the cache of its resource, in order
//! loaded      everything that is stored, before anybody sees it
//! decryption  what could not be decrypted is read again
//! waiters     requests that wait until a revision is in the caches
//! freshness   when the caches were last known to have everything that is stored
//! resource    the objects of one resource as a persistent map, a ring of recent events, the watchers
//! snapshot    the objects of one resource, as they were at one moment
//! watcher     the queue of one watcher, and which events concern it
//! object      one state of one object: the stored bytes, and what is read from them when it is asked for
//! outline     of an object no more than somebody wants to see
//! event       one change, and its frames, written once for all watchers
//! ```
//!
//! Promises: a snapshot is taken without waiting for writers beyond a pointer's copy. A watcher gets every event after the
//! revision it names, once and in order, or is told that it asks for too much. One that is too slow is cut off: nobody waits for
//! it. Objects share their bytes with the store.
//!
//! When events are lost, because the store compacted them before they were read, the new state is loaded aside and replaces
//! the old one at once, with the definitions of custom resources and the revision. All watches end with `410 Expired`. Until
//! then the old state stays, and whoever asks how far the store is waits. What follows the caches compares versions, which change
//! with every replacement.

mod decryption;
mod event;
mod freshness;
mod object;
mod projection;
mod reflector;
mod snapshot;
mod store_snapshot;
#[cfg(test)]
mod tests;
mod waiters;
mod watch_cache;
mod watch_caches;
mod watcher;

pub(crate) use self::{
    event::{EventDelivery, EventType, FrameFormat, frame},
    object::CachedObject,
    reflector::StoreReflector,
    snapshot::Snapshot,
    watch_cache::{TooOldResourceVersion, WatchCache, WatchStart},
    watch_caches::{PROOF_TIME, StalenessError, WatchCaches},
    watcher::{CacheWatcher, WatchFilter},
};
