//! Which node runs which pod.
//!
//! [`SchedulerCore`] decides: it is told what happens and says what is to be done, and touches neither network nor clock.
//! [`Scheduler`] lets it run in a cluster. Deeper down: `queue` (who is next), `cycle` (one decision), `plugins` (the
//! rules, a file each), `cluster` (what is known), `object` (what is kept of objects).

mod cache;
mod scheduler_core;
mod cycle;
mod rng;
mod driver;
mod cluster_event;
mod incremental;
mod labels;
mod number;
pub mod object;
mod plugins;
mod interner;
mod profile;
mod queue;
#[cfg(test)]
mod test_cluster;
mod selector;
mod status;

pub use self::{
    scheduler_core::{SchedulerCore, Decision, NominatingInfo, Preemption},
    driver::{SchedulerSetup, NAME, Scheduler},
    plugins::{PodVolumes, Plugin, PluginSet},
    interner::{StringInterner, Text},
    profile::{DEFAULT, Profile},
    queue::{Attempt, PendingPods, Incoming, Moment, BackoffOptions},
};
