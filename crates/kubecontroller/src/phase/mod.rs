//! Reconcilers as state machines.

mod action;
mod backoff;
mod builder;
mod check;
mod context;
mod handler;
mod machine;
pub mod marks;
mod metrics;
mod notice;
mod pass;
mod paths;
mod persist;
mod picture;
mod reconciler;
mod run;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod trouble;
mod view;

/// Where the status keeps what is known of the clean-up, among the phases.
const CLEANUP: &str = "cleanup";

pub use self::{
    action::{Action, ActionError, Refused},
    backoff::Backoff,
    builder::{Builder, Phase},
    check::Mistakes,
    context::{Context, World},
    handler::{Handler, View, function, objects, parallel, serial},
    machine::Machine,
    metrics::PhaseMetrics,
    notice::{Notice, Teller, reason},
    pass::{Fatal, Pass, Then, Worked},
    paths::{Paths, paths},
    reconciler::PhaseReconciler,
    state::{ObjectState, State, Verdict},
    status::{Approval, Audit, PhaseStatus, Phased},
    step::{Answer, Step},
    trouble::{Severity, Trouble},
    view::{Check, PhaseDetail, PhaseSummary, Progress, StatusView},
};
