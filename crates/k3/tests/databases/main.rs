//! Databases that are started on demand, by real runtimes, from images that are made of this machine's own programs.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod etcd;
mod host;
mod mysql;
#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;
mod storage_command;
