//! A framework for Kubernetes controllers.
//!
#![doc = include_str!("../README.md")]
//!
//! # Chapters
//!
//! Each module begins with what it promises. In the order in which one needs them:
//!
//! 1. [`manager`]: a program. [`App`] has flags, a log and signals; a [`Setup`](manager::Setup) brings a controller; linking a
//!    crate that calls [`register!`] is enough to have it.
//! 2. [`informer`] and [`store`]: what the program knows. Objects of a kind in memory, found by [`Key`] and by indexes;
//!    [`object`] says what is kept of each, [`selector`] which are meant.
//! 3. [`controller`]: what it does about it. Changes become keys, keys become reconciles; what an error means, when a key
//!    comes again, which changes matter.
//! 4. [`owner`], [`finalizer`], [`conflict`], [`expectations`]: what reconcilers do again and again.
//! 5. [`phase`]: reconcilers that bring objects from one phase to the next, declared as state machines.
//! 6. `testing` (with the feature of that name): how to try all of it without a cluster, and with faults.
//! 7. [`leader_election`], [`events`], [`metrics`]: running it: one leader of several replicas, what users and operators are told.
//! 8. [`workqueue`]: the machine room, for who wants the queue without the rest.
//!
//! # Rules of the house
//!
//! - A reconciler looks, and does not trust why it was called. It is called again after whatever happens, also after a crash
//!   between any two of its writes.
//! - Waiting is an [`Outcome`](controller::Outcome), never a sleep: a worker that sleeps works for nobody.
//! - What is read from a store may be a moment old. Where that matters, say what was written
//!   ([`Request::record_write`](controller::Request::record_write)), or what is expected ([`expectations`]).
//! - Time is passed in: waiting is tokio's, the time of day is a [`Clock`]'s. A test pauses the one and sets the other.

mod causes;
mod clock;
pub mod conflict;
pub mod controller;
pub mod decode;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod informer;
mod key;
pub mod leader_election;
pub mod manager;
pub mod metrics;
pub mod object;
pub mod owner;
pub mod phase;
pub mod selector;
pub mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod workqueue;

pub use self::clock::Clock;
pub use self::key::{Key, ParseKeyError};
pub use self::manager::App;
