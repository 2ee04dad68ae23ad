//! What tests of controllers share.
//!
//! ```text
//! scenario  a cluster in memory with simulated time; the same scenario undisturbed, with a crash at every write, and with two
//!         copies at once
//! kubelet nodes that run pods
//! ```

mod kubelet;
#[cfg(test)]
mod null_fields;
mod scenario;

pub(crate) use self::scenario::{Scenario, TestCluster};
