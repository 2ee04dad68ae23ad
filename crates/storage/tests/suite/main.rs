//! One suite for every backend: what the [`Store`](k3_storage::Store) trait promises, as conformance tests, as
//! properties of random histories, and under `kill -9`.
//!
//! `backend` lists the backends: a new one is a file and a line there, and all of this holds it to the
//! promises of the others.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot continue panics with the line"
)]

#[macro_use]
mod backend;

mod conformance;
mod crash;
mod follower;
mod history;
mod properties;
mod store_ext;
