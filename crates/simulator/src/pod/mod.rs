//! Pods on simulated nodes.
//!
//! ```text
//! object     what is kept of a pod
//! lifecycle  what is next in its life
//! status     its status after that step
//! addresses  which addresses it gets
//! controller does it
//! ```

mod addresses;
mod controller;
mod lifecycle;
mod object;
mod status;

pub(crate) use self::{
    controller::{PodController, by_node},
    object::Pod,
};
