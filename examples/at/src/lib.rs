//! Runs a command at a given time.
//!
//! An `At` contains a command and a time. At that second its controller creates a pod that runs the command and is owned by the
//! `At`. An invalid schedule is a permanent error until the spec changes.

mod api;
mod reconciler;
mod schedule;
mod setup;

pub use self::{
    api::{At, AtPhase, AtSpec, AtStatus},
    reconciler::{AtReconciler, pod},
    schedule::{ParseScheduleError, parse_schedule},
    setup::AtSetup,
};
