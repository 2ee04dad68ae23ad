//! A framework for Kubernetes controllers.
//!
//! A controller looks at objects, compares what is with what should be, and acts on the difference. This crate has what that
//! takes beside the comparing. It works with any cluster.
//!
//! - [`object`]: what is kept of an object, and [`Key`], what it is called.
//! - [`selector`]: which labels are meant.
//! - [`store`]: objects in memory, found by key and by indexes.
//! - [`informer`]: objects of a kind, kept up to date in memory.
//! - [`queue`]: which key is worked on next, by whom, and when again.
//! - [`controller`]: changes become keys, keys become reconciles.
//! - [`owner`], [`finalizer`], [`expectations`], [`conflict`]: what reconcilers do again and again.
//! - [`manager`]: controllers together: configuration, start, health, stop.
//! - [`lease`]: leader election.
//! - [`events`]: what controllers tell users.
//! - [`phase`]: reconcilers as state machines.
//! - [`metrics`]: the figures of all of it.

mod clock;
pub mod conflict;
pub mod controller;
pub mod events;
pub mod expectations;
pub mod finalizer;
pub mod informer;
mod key;
pub mod lease;
pub mod manager;
pub mod metrics;
pub mod object;
pub mod owner;
pub mod phase;
pub mod queue;
pub mod selector;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use self::clock::Clock;
pub use self::key::{BadKey, Key};
pub use self::manager::App;
