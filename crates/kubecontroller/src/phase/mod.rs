//! Reconcilers written as state machines.
//!
//! Many controllers move each object through phases: gather facts, check preconditions, act, and end in success or failure.
//! In a hand-written reconciler most of the code is bookkeeping: which steps are done, which must not run twice, which
//! failed and may be retried, and what users see. A [`StateMachine`] does that bookkeeping. It is declared as a list of phases,
//! the transitions between them, and one [`PhaseHandler`] per phase.
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
//! async fn check(context: HandlerContext<Migration>) -> StepResult<Migration> {
//!     if context.resource().spec.source.is_empty() {
//!         return Err(PhaseError::fatal("there is no source"));
//!     }
//!     Ok(Step::done())
//! }
//!
//! async fn copy(context: HandlerContext<Migration>) -> StepResult<Migration> {
//!     let source = context.resource().spec.source.clone();
//!     Ok(Step::done().change(move |object: &mut Migration| {
//!         object.status.get_or_insert_default().moved = Some(source.clone());
//!     }))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), StateMachineValidationError> {
//! let machine = StateMachine::builder("migrate")
//!     .phase("Precheck", Phase::run(function(check)).then("Run").on_error("PreFailed"))
//!     .phase("Run", Phase::run(serial([function(copy)])).then("Succeeded").on_error("Failed").tries(3))
//!     .succeeded("Succeeded")
//!     .failed("PreFailed")
//!     .failed("Failed")
//!     .build()?;
//!
//! // A pass needs no server, so a state machine can be tested in memory.
//! let environment = MachineEnvironment::new(FakeApi::new().client());
//! let mut object = Migration::new("m", MigrationSpec { source: "redis".to_owned() });
//! while !machine.is_terminal(&object) {
//!     object = machine.pass(&environment, &object).await.expect("no prepare function is set").object;
//! }
//! assert_eq!(object.phase(), "Succeeded");
//! assert_eq!(object.status.and_then(|status| status.moved).as_deref(), Some("redis"));
//! # Ok(())
//! # }
//! ```
//!
//! [`StateMachineBuilder::build`] reports every mistake at once: undeclared or unreachable phases, phases without a handler, shared error
//! phases, composites without children. [`StateMachine::to_mermaid`] and [`StateMachine::to_dot`] render the declared transitions.
//!
//! # Handlers
//!
//! A [`function`] returns a [`Step`]: [`done`](Step::done), or [`not_yet`](Step::not_yet). After `not_yet` the machine runs it
//! again when the defer interval has passed; [`HandlerContext::last`] holds the state of the previous run. Handlers nest: [`serial`]
//! runs its children one after the other, [`parallel`] runs them concurrently, and [`objects`] processes a list in batches.
//! A handler that is done never runs again, even after a restart of the program or the failure of a sibling. One exception
//! remains: a crash between the run and the write of its result makes it run twice. Handlers must therefore be idempotent.
//!
//! Handlers do not modify the object. They return status changes with [`Step::change`]. The machine applies these changes in
//! declaration order and writes them together with its own part of the status, so parallel handlers need no lock.
//!
//! The context also provides the client, the clock, and every value added to the [`MachineEnvironment`], looked up by type.
//! A value that depends on the object, such as a connection to the database that the object names, is added in each pass by
//! [`StateMachineBuilder::prepare`].
//!
//! # Failures
//!
//! A [`PhaseError`] is either fatal, which moves the object to the error phase, or retriable. A retriable error keeps the
//! phase and retries it with exponential backoff that starts at the defer interval ([`StateMachineBuilder::backoff`]). [`StateMachineBuilder::is_fatal`]
//! classifies errors converted by `?`; by default, network errors and errors of an overloaded server are retriable, all others
//! are fatal. A panic is fatal. [`Phase::tries`] and [`Phase::timeout`] limit a phase; both limits survive restarts. The
//! first failure among parallel children cancels the others, and the machine waits until all have returned.
//!
//! Rules that are easy to get wrong:
//! - A composite is done when all children are done, or when one failed fatally. Each failure is classified once, where it
//!   happens, and the classification is stored: a retriable child never becomes fatal because it was read from the status.
//! - [`Step::next`] and warnings take effect only from the handler of the phase, not from its children. Warnings and errors
//!   of [`ObjectState`]s do reach the handler that works on them.
//! - A phase that is entered again starts with empty state.
//! - A phase without an error phase is retried forever.
//! - An object in a phase that the program no longer declares fails with `Handler for phase X not found`.
//!
//! # Status
//!
//! [`PhaseStatus`] is the machine's part of the status: the phase, and for each phase a [`HandlerState`] that mirrors its tree of
//! handlers. It derives `JsonSchema`, so it is part of the schema of the custom resource. Below the first level of the tree
//! the schema preserves unknown fields, because a structural schema cannot be recursive.
//!
//! # Running against an API server
//!
//! [`StateMachine::into_reconciler`] turns the machine into a [`Reconciler`](crate::controller::Reconciler). A pass reads the
//! object; stops if the object is paused, blocked by an annotation ([`annotations`]) or in a terminal phase; stores the finalizer
//! or the beginning of the phase, if that is missing; otherwise runs the handler and writes the changed fields, if any. Either
//! costs at most two writes. Concurrent edits by other clients are never lost; see [`PhaseReconciler`]. Events
//! go to a [`PhaseEventSink`], such as an [`EventRecorder`](crate::events::EventRecorder); metrics go to the program's
//! [`Metrics`](crate::metrics::Metrics).
//!
//! ```text
//! let reconciler = machine.into_reconciler(MachineEnvironment::new(client), migrations.store()).event_sink(recorder);
//! let controller = Controller::new("migrations")
//!     .for_where(&migrations, reconciler.predicate())
//!     .reconciler(reconciler);
//! ```
//!
//! When an object is deleted, the machine runs [`StateMachineBuilder::cleanup`] first, in whatever phase the object is, even if it is
//! paused.
//!
//! # User actions
//!
//! Users pause, reset, revert and approve objects ([`Action`]), and see the path, checklists, objects and progress
//! ([`StateMachine::view`]).

mod action;
pub mod annotations;
mod attempt;
mod builder;
mod context;
mod diagram;
mod error;
mod handler;
mod metrics;
mod object_client;
mod pass;
mod pass_cache;
mod paths;
mod phase_event;
mod reconciler;
mod run;
mod state;
mod state_machine;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod validation;
mod view;

/// The key of the clean-up's state among the phases in the status.
const CLEANUP: &str = "cleanup";

pub use self::{
    action::{Action, ActionError, ActionRejection},
    builder::{Phase, StateMachineBuilder},
    context::{HandlerContext, MachineEnvironment},
    error::{PhaseError, Severity},
    handler::{HandlerView, PhaseHandler, function, objects, parallel, serial},
    pass::{HandlerRun, NextPass, PassResult},
    paths::{ObjectPaths, paths},
    phase_event::{PhaseEvent, PhaseEventSink, reason},
    reconciler::PhaseReconciler,
    state::{Completion, HandlerResult, HandlerState, ObjectState},
    state_machine::StateMachine,
    status::{Approval, Audit, PhaseStatus, Phased},
    step::{Step, StepResult},
    validation::StateMachineValidationError,
    view::{ChecklistItem, HandlerProgress, PhaseDetail, PhaseSummary, StatusView},
};
