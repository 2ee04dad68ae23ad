//! A framework for Kubernetes controllers.
//!
#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! 1. [`manager`]: the program. [`App`] provides flags, logging and signal handling; a [`Setup`](manager::Setup) adds
//!    controllers. A crate that calls [`register!`] only has to be linked.
//! 2. [`informer`] and [`store`]: the objects of a kind in memory, found by [`Key`], index or [`selector`]. [`object`] defines
//!    how much of each object is stored.
//! 3. [`controller`]: sources, predicates, reconcilers, and how errors are retried.
//! 4. [`writer`], [`owner`], [`finalizer`], [`conflict`], [`expectations`]: common tasks of reconcilers.
//! 5. [`phase`]: reconcilers that are declared as state machines.
//! 6. `testing` (a feature): a fake API server with fault injection, to test controllers without a cluster.
//! 7. [`leader_election`], [`events`], [`metrics`]: operation with several replicas, and observability.
//! 8. [`workqueue`]: the queue of the controllers, for use on its own.
//!
//! # Principles
//!
//! - Reconcilers are level-triggered and idempotent. They act on the current state and not on the event that caused the call, and
//!   they may be called again after a crash between any two writes.
//! - A reconciler that has to wait returns an [`Outcome`](controller::Outcome). It does not sleep: a sleeping worker processes no
//!   other key.
//! - Stores are eventually consistent. Where a stale read would do harm, record writes with
//!   [`Request::record_write`](controller::Request::record_write) or use [`expectations`].
//! - Time is injected. Delays use tokio's clock, which tests pause; timestamps use a [`Clock`], which tests set.

mod causes;
pub mod conflict;
pub mod controller;
pub mod decode;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod informer;
mod key;
mod keyed_backoff;
pub mod leader_election;
pub mod manager;
pub mod metrics;
pub mod object;
pub mod owner;
pub mod phase;
pub mod resource;
pub mod selector;
pub mod store;
mod sync;
#[cfg(feature = "testing")]
pub mod testing;
pub mod workqueue;
pub mod writer;

pub use self::key::{Key, ParseKeyError};
pub use self::keyed_backoff::{BackoffTime, KeyedBackoff};
pub use self::manager::App;
pub use k3_task::{Backoff, BackoffDelays, Clock, panic_message};
