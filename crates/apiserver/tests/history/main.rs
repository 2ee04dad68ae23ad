//! Responses when a server has lost events of the store, when it lags behind another server, and when requests are as costly as
//! clients can make them: for every kind, on every backend.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

#[macro_use]
mod backend;
mod client;
mod decisions;
mod eviction;
mod gap_store;
mod hostile;
mod kinds;
mod lagging;
mod lost;
mod proxy;
mod refused;
