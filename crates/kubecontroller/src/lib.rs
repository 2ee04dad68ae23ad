//! A framework for Kubernetes controllers.
//!
//! A controller looks at objects, compares what is with what should be, and acts on the difference. This crate has what that
//! takes beside the comparing. It works with any cluster.
//!
//! - [`object`]: what is kept of an object, and [`Key`], what it is called.
//! - [`store`]: objects in memory, found by key and by indexes.
//! - [`queue`]: which key is worked on next, by whom, and when again.

mod key;
pub mod object;
pub mod queue;
pub mod store;

pub use self::key::{BadKey, Key};
