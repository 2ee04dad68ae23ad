//! What a server does with those who ask for too much: every limit, and every attack that has worked on servers of this kind.
//! `docs/limits.md` says which claim is about which.
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
