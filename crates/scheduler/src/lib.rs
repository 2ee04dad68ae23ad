//! Which node runs which pod.
//!
//! [`SchedulerCore`] decides: it is told what happens and says what is to be done, and touches neither network nor clock.
//! [`Scheduler`] lets it run in a cluster. Deeper down: `queue` (who is next), `cycle` (one decision), `plugins` (the
//! rules, a file each), `cluster` (what is known), `object` (what is kept of objects).

mod cache;
mod cluster_event;
mod cycle;
mod driver;
mod incremental;
mod interner;
mod labels;
mod number;
pub mod object;
mod plugins;
mod profile;
mod queue;
mod rng;
mod scheduler_core;
mod selector;
mod status;
#[cfg(test)]
mod test_cluster;

pub use self::{
    driver::{NAME, Scheduler, SchedulerSetup},
    interner::{StringInterner, Text},
    plugins::{Plugin, PluginSet, PodVolumes},
    profile::{DEFAULT, Profile},
    queue::{Attempt, BackoffOptions, Incoming, Moment, PendingPods},
    scheduler_core::{Decision, NominatingInfo, Preemption, SchedulerCore},
};
