//! Copies data after a while.
//!
//! A `Dummy` says what and how long to wait. Waiting takes no worker: when it began stands in the status, and the key comes
//! back when it is over. A change of the spec begins the wait again.

mod api;
mod reconciler;
mod setup;

pub use self::{
    api::{Dummy, DummySpec, DummyStatus},
    reconciler::Dummies,
    setup::DummySetup,
};
