//! Runs a graph of activities.
//!
//! A `Workflow` is in phase `init` until its graph is validated, `execution` while vertices run, and `final` when all are done;
//! `rejected` if the graph is invalid, and `failed` if an activity fails. A vertex starts when all its predecessors are done;
//! ready vertices run concurrently. A vertex that was running when the controller crashed runs again, so activities must be
//! idempotent.

mod activity;
mod api;
mod graph;
mod machine;
mod setup;

pub use self::{
    activity::{Executor, Function},
    api::{
        Activity, ActivityKind, Edge, Entry, EntryPhase, Event, Gateway, Workflow, WorkflowSpec,
        WorkflowStatus,
    },
    graph::{Graph, GraphError},
    machine::machine,
    setup::WorkflowSetup,
};
