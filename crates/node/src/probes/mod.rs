//! Looking whether containers are well: exec, HTTP, TCP and gRPC.
//!
//! ```text
//! exec http tcp grpc   one look, a file each
//! look                 which of them, how often it is tried, what is told of it
//! schedule             when to look, and how many looks make a result
//! plan                 which containers are looked at
//! prober               the workers, and what they found
//! ```
//!
//! Promises:
//! - Only containers that run and have probes are looked at; a pod without probes costs nothing.
//! - A worker is for one run of a container: what was found of an earlier one says nothing of the next.
//! - Until a container is up by its startup probe, the others are not begun.
//! - What the API said of a container that ran before the agent did holds until the first result.

mod exec;
mod grpc;
pub mod http;
mod look;
mod plan;
mod port;
mod prober;
mod results;
mod schedule;
mod tcp;
#[cfg(test)]
mod tests;

pub use self::{
    look::Found,
    plan::grace,
    prober::Prober,
    results::{Outcome, ProbeKind, ProbeResults},
};
