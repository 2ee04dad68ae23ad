//! Which node runs which pod.
//!
//! [`Core`] decides: it is told what happens and says what is to be done, and touches neither network nor clock.
//! [`Scheduler`] lets it run in a cluster. Deeper down: `queue` (who is next), `cycle` (one decision), `plugins` (the
//! rules, a file each), `cluster` (what is known), `object` (what is kept of objects).

mod cluster;
mod core;
mod cycle;
mod dice;
mod driver;
mod event;
mod fold;
mod labels;
mod number;
pub mod object;
mod plugins;
mod pool;
mod profile;
mod queue;
#[cfg(test)]
mod sample;
mod selector;
mod status;

pub use self::{
    core::{Core, Decision, Nominate, Preempt},
    driver::{Install, NAME, Scheduler},
    plugins::{Decided, Plugin, Plugins},
    pool::{Pools, Text},
    profile::{DEFAULT, Profile},
    queue::{Attempt, Depths, Incoming, Moment, Patience},
};
