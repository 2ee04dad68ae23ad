//! Pods on simulated nodes.
//!
//! ```text
//! object     a pod, its rule and the run of its containers
//! lifecycle  decides the next step
//! status     the status patch of a step
//! addresses  assigns pod addresses
//! controller performs the step
//! ```

mod addresses;
mod controller;
mod lifecycle;
mod object;
mod status;

pub(crate) use self::controller::PodController;
