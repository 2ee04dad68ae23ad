//! The parts of a cluster as processes of their own.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod components;
mod joining;
mod masters;
mod process;
#[path = "../program/mod.rs"]
mod program;
mod roles;
