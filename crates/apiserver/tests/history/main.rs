//! Responses when a server has lost events of the store, and when it lags behind another server: for every kind, on every
//! backend.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

#[macro_use]
mod backend;
mod client;
mod decisions;
mod gap_store;
mod kinds;
mod lagging;
mod lost;
mod proxy;
mod refused;
