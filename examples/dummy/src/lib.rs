//! Copies data after a delay.
//!
//! A `Dummy` contains data and a delay. The delay does not block a worker: its start is stored in the status, and the key is
//! requeued for its end. A change of the spec restarts the delay.

mod api;
mod reconciler;
mod setup;

pub use self::{
    api::{Dummy, DummySpec, DummyStatus},
    reconciler::DummyReconciler,
    setup::DummySetup,
};
