//! Eviction of pods under memory, disk or PID pressure.
//!
//! ```text
//! manager        EvictionManager: observes signals, sets pressure conditions, reclaims images, evicts pods
//! signal         eviction signals and resources       threshold   hard eviction thresholds
//! rank           order in which pods are evicted      message     message of an eviction
//! local_storage  limits of local ephemeral storage    pod_usage   resource usage of pods
//! active_pods    interface to the pods of the node    node_conditions  pressure conditions with their transition period
//! ```
// upstream: pkg/kubelet/eviction/eviction_manager.go managerImpl

mod active_pods;
mod local_storage;
mod manager;
mod message;
mod node_conditions;
mod pod_usage;
mod rank;
mod signal;
mod threshold;

pub(super) use self::{
    active_pods::{ActivePods, EvictionRequest},
    manager::{EvictionDependencies, EvictionManager},
    pod_usage::{DirectoryUsage, MeasureVolumes},
};
pub use self::{
    signal::{EvictionSignal, UnknownSignalError},
    threshold::{EvictionThreshold, ParseThresholdError, ThresholdValue},
};
