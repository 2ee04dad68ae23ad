//! A cluster for a test: in the process of the test, on a free port, with controllers, and removed when it is dropped.
//!
//! ```text
//! builder      what a cluster is to have
//! environment  the cluster: a thread of its own, and how it is connection
//! plane        what runs in that thread
//! definitions  the kinds that it knows from the start
//! error        why there is none
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
