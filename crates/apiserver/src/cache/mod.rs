//! The watch cache: what is stored, in memory, and every change of it to whoever watches.
//!
//! ```text
//! feed        one watch of the whole store; puts each event into the cache of its resource, in order
//! resource    the objects of one resource as a persistent map, a ring of recent events, the watchers
//! watcher     the queue of one watcher, and which events concern it
//! object      one state of one object: the stored bytes, and what is read from them when it is asked for
//! outline     of an object no more than somebody wants to see
//! event       one change, and its frames, written once for all watchers
//! ```
//!
//! Promises: a snapshot is taken without waiting for writers beyond a pointer's copy. A watcher gets every event after the
//! revision it names, once and in order, or is told that it asks for too much. One that is too slow is cut off: nobody waits for
//! it. Objects share their bytes with the store.

mod event;
mod feed;
mod object;
mod outline;
mod resource;
#[cfg(test)]
mod tests;
mod watcher;

pub(crate) use self::{
    event::{Delivery, EventType, Wire, frame},
    feed::{Caches, Feed},
    object::Object,
    resource::{ResourceCache, Since, Snapshot},
    watcher::{Interest, Watcher},
};
