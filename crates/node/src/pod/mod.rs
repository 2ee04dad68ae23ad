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
//! manager             PodManager: builds the parts below, and answers queries
//! tasks               what triggers syncs, and what runs them
//! workers             PodWorkers: the states of a pod (syncing, terminating, terminated)
//! allocation_manager  AllocationManager: admission, resources, resize (pure: admission, allocation_state)
//! runtime_manager     RuntimeManager: applies actions; sync and start are one sync of one pod
//! runtime_class       the runtime handler of a pod
//! status_reporter     StatusReporter: computes statuses; status_manager writes them
//! active_deadline     activeDeadlineSeconds; node_shutdown: termination of all pods
//! cleaner             PodCleaner: removes what terminated and orphaned pods leave
//! pod_config          pods from the API; static_pods: pods from files; mirror_client: their mirror pods
//! store               the in-memory state of each pod; queue: the pods to sync
//! start_limiter       concurrent starts; time: sums of times
//! events              events of pods and containers
//! ```
//!
//! Promises:
//! - A pod has a worker only while there is something to do for it, and never two.
//! - The runtime is the only persistent state: a restarted agent continues from what it finds there.

mod actions;
mod active_deadline;
mod admission;
mod allocation_manager;
mod allocation_state;
mod cache;
mod cleaner;
mod container_gc;
mod create_container_error;
mod dependencies;
mod events;
mod hooks;
mod hosts;
mod log_directories;
mod manager;
mod manifests;
mod mirror_client;
mod node_shutdown;
mod pod_config;
mod queue;
mod restart_backoff;
mod runtime_class;
mod runtime_manager;
mod server_host;
pub mod spec;
mod start;
mod start_limiter;
mod static_pods;
pub mod status;
mod status_manager;
mod status_reporter;
mod stop;
mod store;
mod sync;
mod tasks;
mod termination_message;
mod termination_message_file;
#[cfg(test)]
mod tests;
mod time;
mod volume_refresher;
mod workers;

pub use self::{
    dependencies::{PodDependencies, PodSettings},
    manager::{PodManager, PodRuntimeIds},
    node_shutdown::ShutdownPriorityBand,
};
