//! Managers: configuration, start, supervision, health and shutdown of controllers.
//!
//! - [`App`] is a complete program: flags, configuration file, log, signals, exit code. It runs [`Manager`]s; tests run a
//!   [`Manager`] directly.
//! - [`Setup`] adds a reconciler to a manager; [`register!`](crate::register) adds a setup to every program that links it.
//! - [`Runnable`] is anything that runs until a [`Stop`] is triggered: a controller, a server, a task.
//! - [`Config`] is the configuration; [`config::keys`] lists its keys.
//!
//! Guarantees:
//! - The start is ordered: servers, informers until all caches are synced, `after_sync` hooks, runnables without leader
//!   election, leader-only runnables. The shutdown runs in reverse order and has a deadline; what has not ended by then is
//!   dropped.
//! - A runnable that fails or panics is restarted with exponential backoff while the others continue. Errors that a restart
//!   cannot fix (a setup, a hook, a listen address, another manager) end the program.
//! - The configuration is validated before the first connection.
//! - An idle manager sends no requests except renewals of its lease and of its watches.

mod app;
mod client;
pub mod config;
mod context;
mod controller_manager;
mod error;
mod health;
mod log;
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
    controller_manager::Manager,
    error::ManagerError,
    health::{HealthCheckError, HealthChecks},
    metadata::{ControllerType, ResourceMetadata},
    registry::Registration,
    runnable::{BoxError, Runnable, TaskRunnable, task},
    selection::{ControllerSelection, SelectionError},
    setup::Setup,
    start_condition::{StartCondition, StartConditionError},
    status::{RunnableState, RunnableStatus},
    stop::Stop,
};
#[doc(hidden)]
pub use self::{registry::erase, setup::ErasedSetup};
