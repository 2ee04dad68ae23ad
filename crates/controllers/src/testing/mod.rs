//! What tests of controllers share.
//!
//! ```text
//! story   a cluster in memory whose time passes at once; the same story undisturbed, with a crash at every write, and with two
//!         copies at once
//! kubelet nodes that run pods
//! ```

mod kubelet;
#[cfg(test)]
mod null_fields;
mod scenario;

pub(crate) use self::scenario::{Scenario, TestCluster};
