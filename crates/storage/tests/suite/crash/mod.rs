//! Processes that are killed and paused while they use a store, and servers that are killed under them.
//!
//! A child is this test binary again, configured by its environment. It reports what it asks of the
//! store before it asks, and what it was answered before it asks for more; so whatever the instant of its
//! death, the parent knows what was acknowledged, and what may or may not have happened.

mod address;
mod child;
mod file;
mod ledger;
mod pause;
mod process;
mod protocol;
mod servers;

/// The environment variable with the number of times that something is killed.
const CYCLES_VARIABLE: &str = "K3_CRASH_CYCLES";
