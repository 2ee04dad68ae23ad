//! A framework for Kubernetes controllers.
//!
//! A controller looks at objects, compares what is with what should be, and acts on the difference. This crate has what that
//! takes beside the comparing. It works with any cluster.
//!
//! - [`queue`]: which key is worked on next, by whom, and when again.

pub mod queue;
