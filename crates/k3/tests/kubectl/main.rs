//! A day's work with the kubectl of this machine, against a server of the test's own.
//!
//! A missing kubectl is a failure. One of version 1.32 or newer is needed.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod access;
mod authorization;
mod client;
mod cluster;
mod containers;
mod custom;
mod discovery;
mod identity;
mod objects;
mod policy;
#[path = "../program/mod.rs"]
mod program;
mod removal;
mod tokens;
mod watching;
mod workloads;
