//! Pods on simulated nodes.
//!
//! ```text
//! object     the cached part of a pod
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

pub(crate) use self::{
    controller::{PodController, pods_by_node},
    object::Pod,
};
