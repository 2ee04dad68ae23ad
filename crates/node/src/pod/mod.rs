//! Pod workers: bring the containers of each pod to what its spec asks for, and report its status.
//!
//! ```text
//! API, static pod files, runtime events, probe results --> queue --> workers: one sync of one pod:
//!
//!   cache               the sandboxes and containers the runtime has (PLEG and pod cache)
//!   status              the PodStatus computed from them      --> status_manager --> API
//!   actions             what has to change (computePodActions)
//!   sync                applies the actions: stop, start (spec, hosts, termination_message, hooks), prune
//!
//! manager             all pods of the node: event handlers and queries
//! store               the in-memory state of each pod
//! admission           whether the node admits the pod; allocation, allocation_state: its resources
//! static_pods         pods from files, and their mirror pods
//! start_limiter       concurrent starts; time: sums and texts of times
//! events              events of pods and containers
//! ```
//!
//! Promises:
//! - A pod has a worker only while there is something to do for it, and never two.
//! - The runtime is the only persistent state: a restarted agent continues from what it finds there.

mod actions;
mod admission;
mod allocation;
mod allocation_state;
mod cache;
mod dependencies;
mod events;
mod hooks;
mod hosts;
mod manager;
mod server_host;
pub mod spec;
mod start;
mod start_limiter;
mod static_pods;
pub mod status;
mod status_manager;
mod stop;
mod store;
mod sync;
mod termination_message;
#[cfg(test)]
mod tests;
mod time;
mod workers;

pub use self::{
    dependencies::{PodDependencies, PodSettings},
    manager::{PodManager, PodRuntimeIds, ShutdownPriorityBand},
};
