//! Controllers together: configuration, start, health, stop.
//!
//! - [`App`] is a whole program: flags, file, log, signals, exit code. [`Manager`] is what it runs, and what tests run.
//! - [`Setup`] is how a reconciler becomes part of one; [`register!`](crate::register) is how linking makes it part of a program.
//! - [`Runnable`] is anything that runs until [`Stop`].
//! - [`Config`] is what a program is told; [`config::keys`] lists it.
//!
//! Promises:
//! - The start has an order: servers, informers until all are synced, hooks, tasks of everyone, tasks of the leader. The stop
//!   has the opposite one, and a deadline by which what is left is dropped.
//! - A controller that fails or panics is started again, later and later, while the others go on. What cannot be mended by
//!   starting again (a setup, a hook, an address, another manager) ends the program.
//! - What it is told is checked before it connects to anything.
//! - It asks the API for nothing that it was not asked for: idle, it renews its lease and nothing else.

mod app;
mod cluster;
pub mod config;
mod context;
mod error;
mod health;
mod log;
mod manager;
mod metadata;
mod process;
mod registry;
mod runnable;
mod selection;
mod setup;
mod signals;
mod start_condition;
mod status;
mod stop;
mod supervisor;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use inventory;

pub use self::{
    app::App,
    config::{Config, ConfigError, ControllerSetting},
    context::ManagerContext,
    error::ManagerError,
    health::HealthChecks,
    manager::Manager,
    metadata::{ControllerType, ResourceMetadata},
    registry::Registration,
    runnable::{BoxError, Runnable, TaskRunnable, task},
    selection::ControllerSelection,
    setup::Setup,
    start_condition::StartCondition,
    status::{RunnableState, RunnableStatus},
    stop::Stop,
};
#[doc(hidden)]
pub use self::{registry::erase, setup::ErasedSetup};
