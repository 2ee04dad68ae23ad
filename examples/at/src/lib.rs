//! Runs a command at a time.
//!
//! An `At` says when and what. At that second a pod with the command is made, which the `At` owns; then it is done. A
//! schedule that is no time is an error, and stays one until somebody mends it.

mod api;
mod reconciler;
mod schedule;
mod setup;

pub use self::{
    api::{At, AtPhase, AtSpec, AtStatus},
    reconciler::{Ats, pod},
    schedule::{BadSchedule, schedule},
    setup::AtSetup,
};
