//! Reconcilers as state machines.
//!
//! Many controllers bring each object from one phase to the next: collect what is known, check, act, and end well or badly.
//! WriteResult by hand, most of such a reconciler is bookkeeping: what has been done, what must not be done twice, what failed and
//! may be tried again, what users see of it. A [`Machine`] does the bookkeeping. It is declared as phases, the ways between
//! them, and a handler for each.
//!
//! ```
//! use kube::CustomResource;
//! use kubecontroller::{phase::*, phased, testing::FakeApi};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.org", version = "v1", kind = "Migration", namespaced, status = "MigrationStatus")]
//! struct MigrationSpec { source: String }
//!
//! #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
//! struct MigrationStatus {
//!     #[serde(flatten)]
//!     phases: PhaseStatus,
//!     moved: Option<String>,
//! }
//! phased!(Migration);
//!
//! async fn check(context: Context<Migration>) -> StepResult<Migration> {
//!     if context.resource().spec.source.is_empty() {
//!         return Err(PhaseError::fatal("there is no source"));
//!     }
//!     Ok(Step::done())
//! }
//!
//! async fn copy(context: Context<Migration>) -> StepResult<Migration> {
//!     let source = context.resource().spec.source.clone();
//!     Ok(Step::done().change(move |object: &mut Migration| {
//!         object.status.get_or_insert_default().moved = Some(source.clone());
//!     }))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), MachineErrors> {
//! let machine = Machine::builder("migrate")
//!     .phase("Precheck", Phase::run(function(check)).then("Run").on_error("PreFailed"))
//!     .phase("Run", Phase::run(serial([function(copy)])).then("Succeeded").on_error("Failed").tries(3))
//!     .succeeded("Succeeded")
//!     .failed("PreFailed")
//!     .failed("Failed")
//!     .build()?;
//!
//! // A pass needs no server: this is how machines are tested.
//! let environment = MachineEnvironment::new(FakeApi::new().client());
//! let mut object = Migration::new("m", MigrationSpec { source: "redis".to_owned() });
//! while !machine.is_terminal(&object) {
//!     object = machine.pass(&environment, &object).await.expect("there is nothing to prepare").object;
//! }
//! assert_eq!(object.phase(), "Succeeded");
//! assert_eq!(object.status.and_then(|status| status.moved).as_deref(), Some("redis"));
//! # Ok(())
//! # }
//! ```
//!
//! [`Builder::build`] names every mistake at once: phases that are not declared, cannot be reached or have no handler, error
//! phases that are shared, composites without children. [`Machine::to_mermaid`] and [`Machine::to_dot`] draw what was declared.
//!
//! # Handlers
//!
//! A [`function`] answers a [`Step`]: [`done`](Step::done), or [`not_yet`](Step::not_yet), and then it is run again after the
//! machine's defer, with what is known of its last run in the [`Context`]. Handlers nest: [`serial`] children run one after
//! the other, [`parallel`] ones at once, and [`objects`] works through a list in batches. Whatever is done is not run again,
//! whether the program was restarted or a sibling failed. Between its run and the write of its result a program can die, and
//! then a handler does run twice: what it does should do no harm the second time.
//!
//! Handlers are given the object and do not change it. What they want changed in its status they answer as a
//! [`Step::change`]; the machine makes the changes in the order of declaration and writes them with its own. So parallel
//! handlers need no lock.
//!
//! The context also has the client, the clock, and by type whatever the [`MachineEnvironment`] was given. What depends on the object, such
//! as a client of the database it names, [`Builder::prepare`] adds in each pass.
//!
//! # Failures
//!
//! A [`PhaseError`] is fatal, and then the object goes to the error phase; or it may pass, and then the phase is tried again,
//! after the defer, twice that, and so on ([`Backoff`]). Errors that came by `?` are judged by [`Builder::is_fatal`]: unless
//! told otherwise those of the network and of a busy server may pass, others are fatal. A panic is fatal. [`Phase::tries`] and
//! [`Phase::timeout`] bound a phase; both count across restarts. The first failure among parallel children cancels the others,
//! and all are waited for.
//!
//! Some rules are easily guessed wrong:
//! - A composite is done when all children are, or when one failed for good. Each failure is judged once, where it happens,
//!   and stored as judged: a child that may be tried again never becomes fatal by being read from the status.
//! - [`Step::next`], and warnings, count for the handler of the phase; those of children do not reach it. Warnings and errors
//!   of objects do reach the handler that works on them.
//! - A phase that is entered again begins afresh.
//! - A phase without an error phase is tried for ever.
//! - An object in a phase that the program no longer has fails with `Handler for phase X not found`.
//!
//! # The status
//!
//! [`PhaseStatus`] is the machine's part of the status: the phase, and for each phase a [`State`] that mirrors its tree of
//! handlers. Derived from the types, it is in the schema of the custom resource. Below the first level the schema lets
//! anything stand, for a schema cannot contain itself.
//!
//! # Beside a server
//!
//! [`Machine::into_reconciler`] makes a reconciler of the machine. A pass fetches the object, stops if it is paused, held by
//! an annotation ([`annotations`]) or at an end, runs the handler, and writes what changed: nothing if nothing did. Edits that
//! others make meanwhile are never lost; see [`PhaseReconciler`]. Notices go to a [`PhaseEventSink`], such as the recorder of events;
//! figures to the program's [`Metrics`](crate::metrics::Metrics).
//!
//! ```text
//! let reconciler = machine.into_reconciler(MachineEnvironment::new(client), migrations.store()).event_sink(recorder);
//! let controller = Controller::new("migrations")
//!     .for_where(&migrations, reconciler.interest())
//!     .reconciler(reconciler);
//! ```
//!
//! An object that is deleted is cleaned up first ([`Builder::cleanup`]), in whatever phase it is, even if it is paused.
//!
//! # Users
//!
//! They pause, reset, revert, approve ([`Action`]), and see the path, checklists, objects and progress ([`Machine::view`]).

mod action;
pub mod annotations;
mod backoff;
mod builder;
mod context;
mod diagram;
mod error;
mod handler;
mod machine;
mod memory;
mod metrics;
mod pass;
mod paths;
mod persist;
mod phase_event;
mod reconciler;
mod run;
mod state;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod validation;
mod view;
mod work;

pub(crate) use self::metrics::PhaseMetrics;

/// Where the status keeps what is known of the clean-up, among the phases.
const CLEANUP: &str = "cleanup";

pub use self::{
    action::{Action, ActionError, ActionRejection},
    backoff::Backoff,
    builder::{Builder, Phase},
    context::{Context, MachineEnvironment},
    error::{PhaseError, Severity},
    handler::{Handler, View, function, objects, parallel, serial},
    machine::Machine,
    pass::{HandlerRun, NextPass, Pass},
    paths::{ObjectPaths, paths},
    phase_event::{PhaseEvent, PhaseEventSink, reason},
    reconciler::PhaseReconciler,
    state::{HandlerResult, ObjectState, State},
    status::{Approval, Audit, PhaseStatus, Phased},
    step::{Step, StepResult},
    validation::MachineErrors,
    view::{Check, PhaseDetail, PhaseSummary, Progress, StatusView},
};
