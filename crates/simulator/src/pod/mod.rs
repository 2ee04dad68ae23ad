//! Pods on simulated nodes.
//!
//! ```text
//! object     what is kept of a pod
//! plan       what is next in its life
//! status     what its status says then
//! addresses  which addresses it gets
//! keeper     does it
//! ```

mod addresses;
mod keeper;
mod object;
mod plan;
mod status;

pub(crate) use self::{
    keeper::{PodKeeper, by_node},
    object::Pod,
};
