//! `k3 start` as a user sees it: files, flags, errors, and the end.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod files;
mod flags;
mod output;
#[path = "../program/mod.rs"]
mod program;
mod stop;
