//! What controllers of services share.
//!
//! ```text
//! members   which services a change of a pod concerns, and which pods are behind a service
//! port      the ports that pods have for those of a service
//! port_order     upstream's order of ports
//! subsets   addresses in the form in which endpoints are compared
//! identity  what makes endpoints the same one
//! slices    requests that make and change slices
//! trigger   when that happened which changed the endpoints of a service
//! ```

pub(crate) mod endpoint_key;
#[cfg(test)]
pub(crate) mod examples;
pub(crate) mod port;
pub(crate) mod port_order;
pub(crate) mod service_pods;
pub(crate) mod slice_writer;
pub(crate) mod subsets;
pub(crate) mod trigger_time;

/// The label of endpoints and slices of services that have no address.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation: endpoints.kubernetes.io/last-change-trigger-time.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The note of endpoints that are the lock of an election, and no endpoints of a service at all.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
