//! A cluster for tests: in the process of the test, on a free port, with controllers, and removed when it is dropped.
//!
//! ```text
//! builder        options of a cluster
//! environment    the handle of a cluster, and its thread
//! control_plane  runs the control plane in that thread
//! definitions    CustomResourceDefinitions to create at start
//! error          why a cluster did not start
//! ```

mod builder;
mod control_plane;
mod definitions;
mod environment;
mod error;

pub use self::{
    builder::{TestEnvBuilder, TestStorage},
    environment::TestEnv,
    error::TestEnvError,
};
