//! The node agent: pods become containers of Docker, Podman, containerd or CRI-O.
//!
//! ```text
//! API  --pods of this node-->  pod/  -----missing actions----->  runtime/  -->  containers
//!  ^                             |  volumes/ environment/ images/ probes/       |
//!  '---------- statuses ---------'<----------- sandboxes, containers -----------'
//!
//! agent/    the node: registration, conditions, lease, eviction, image garbage collection, log rotation (upstream's Kubelet)
//! server/   the kubelet API: logs, exec, attach, port-forward, stats, metrics
//! signing   client for certificate signing requests
//! sources/  objects that pods refer to: ConfigMaps, Secrets, tokens, PersistentVolumeClaims
//! ```
//!
//! Promises:
//! - Only pods that are bound to this node run, and only containers with its labels are changed.
//! - A restarted agent finds the running containers and does not restart them.
//! - A slow pod does not delay others: each pod has its own worker, and every runtime call has a timeout.
//! - A status that did not change is not written.

pub mod agent;
mod blocking;
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
    facts::{HostFacts, NodeFacts},
    identity::PodIdentity,
};
