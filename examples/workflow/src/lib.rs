//! Runs a graph of activities.
//!
//! A `Workflow` is `init` until its graph is known to be one that can end, `execution` while there is something to do, and
//! `final` when all is done; `rejected` if the graph is bad, and `failed` if an activity is. A vertex begins when all that
//! come before it are done. Vertices that may begin begin together. One that was begun when the controller died is begun
//! again: activities have to bear that.

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
    graph::{BadGraph, Graph},
    machine::machine,
    setup::WorkflowSetup,
};
