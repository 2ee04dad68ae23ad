//! Shared by the Endpoints, EndpointSlice and EndpointSlice mirroring controllers.
//!
//! ```text
//! service_pods  which Services a pod event affects, and the pods of a Service
//! port          target ports of pods
//! port_order    upstream's order of ports
//! subsets       Endpoints subsets in canonical form
//! endpoint_key  identity of an endpoint
//! slice_writer  creates, updates and deletes EndpointSlices
//! trigger_time  last-change-trigger-time of a Service
//! ```

pub(crate) mod endpoint_key;
pub(crate) mod port;
pub(crate) mod port_order;
pub(crate) mod service_pods;
pub(crate) mod slice_writer;
pub(crate) mod subsets;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod trigger_time;

/// Label of Endpoints and EndpointSlices of headless Services.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation: endpoints.kubernetes.io/last-change-trigger-time.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Annotation of Endpoints that are a leader election lock.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
