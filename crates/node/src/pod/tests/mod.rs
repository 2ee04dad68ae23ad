//! The pod manager against a runtime and an API in memory, with paused time.

mod actions;
mod harness;
mod interruptions;
mod lifecycle;
mod termination;
