//! Limits of the server, and known attacks on servers of this kind.
//! `docs/limits.md` maps limits to tests.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod audit;
mod bodies;
mod connections;
mod http2;
mod load;
mod metrics;
mod paths;
#[path = "../program/mod.rs"]
mod program;
mod raw_connection;
