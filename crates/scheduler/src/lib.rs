//! The scheduler: assigns pods to nodes as kube-scheduler does.
//!
//! [`SchedulerCore`] decides: it takes events and returns decisions, and touches neither network nor clock.
//! [`Scheduler`] runs it against an API server. Modules: `queue` (the scheduling queue), `cycle` (one scheduling cycle), `plugins`
//! (a file each), `cache` (nodes and pods), `object` (the fields of objects that scheduling needs).

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
mod status;
#[cfg(test)]
mod test_cluster;

pub use self::{
    cache::{NodeInfo, SchedulerCache},
    cluster_event::{ClusterEvent, ClusterEventKind},
    driver::{NAME, Scheduler, SchedulerSetup},
    interner::{StringInterner, Text},
    labels::Labels,
    plugins::{
        Candidate, CandidateNode, CycleContext, ExtensionPoint, PodVolumes, PostFilterContext,
        PostFilterResult, PreFilterResult, PreScoreResult, SchedulerPlugin,
    },
    profile::{DEFAULT, Profile},
    queue::{BackoffOptions, Incoming, Moment, PendingPods, SchedulingAttempt},
    scheduler_core::{Decision, FailureReason, NominatingInfo, Preemption, PreemptionOutcome, SchedulerCore},
    status::{FilterResult, Rejection, RejectionCode},
};
