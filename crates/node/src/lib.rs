//! The node agent: pods become containers of Docker, Podman, containerd or CRI-O.
//!
//! ```text
//! API  --pods of this node-->  pod/  --what is missing-->  runtime/  -->  containers
//!  ^                             |  volumes/ environment/ images/ probes/   |
//!  '---------- statuses ---------'<--------------- what is there -----------'
//!
//! agent/    the node itself: registration, conditions, lease, eviction, what is thrown away
//! server/   the node's own API: logs, exec, attach, port-forward, figures
//! signing   certificates that the cluster signs for the node
//! sources/  what pods refer to: config maps, secrets, tokens, claims
//! ```
//!
//! Promises:
//! - Only pods that are bound to this node are run, and only containers that carry its labels are touched.
//! - What runs is found again after a restart of the agent, and is not restarted by it.
//! - One slow pod delays no other: each has a worker of its own, and every call of the runtime has a limit.
//! - Nothing is written that is as it should be.

pub mod agent;
pub mod environment;
mod facts;
mod identity;
pub mod images;
pub mod pod;
pub mod probes;
pub mod runtime;
pub mod server;
pub mod signing;
pub mod sources;
pub mod volumes;

pub use self::{
    facts::{Facts, Machine},
    identity::PodIdentity,
};
