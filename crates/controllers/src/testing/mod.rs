//! What tests of controllers share.
//!
//! ```text
//! world   a cluster in memory whose time passes at once, with a node that runs pods
//! kubelet nodes that run pods
//! story   the same story undisturbed, with a crash at every write, and with two copies at once
//! ```

mod kubelet;
mod story;
mod world;

pub(crate) use self::{
    story::{Stage, Story},
    world::{Make, World},
};
