//! Startup, liveness and readiness probes: exec, HTTP, TCP and gRPC.
//!
//! ```text
//! manager         ProbeManager: the workers and results of all pods
//! active_probes   which probes of a pod have to run now
//! worker          runs one probe of one container periodically
//! schedule        when a probe runs, and when its results cross a threshold
//! prober          runs a probe once, with retries, and records events
//! probe_kind      the trait ProbeKind, which a kind of probe implements
//! kinds/          one file per kind of probe, and their registry
//! http            requests of HTTP probes and lifecycle hooks
//! results         outcomes of the probes of a pod
//! ```
//!
//! Promises:
//! - Only running containers are probed. A pod without probes costs nothing.
//! - A worker belongs to one container ID: results of an earlier instance of the container do not count for the next.
//! - Liveness and readiness probes wait until the startup probe succeeded.
//! - For a container that started before the agent, `started` and `ready` of the API status hold until the first result.

mod active_probes;
mod dial;
pub mod http;
mod kinds;
mod manager;
mod port;
mod probe_kind;
mod prober;
mod results;
mod schedule;
#[cfg(test)]
mod tests;
mod worker;

pub use self::{
    manager::ProbeManager,
    port::ResolvePortError,
    prober::ProbeAttempt,
    results::{ProbeOutcome, ProbeResults, ProbeType},
};
