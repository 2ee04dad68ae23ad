//! `k3 cluster`: several nodes on this machine, from the first file to the last trace.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod cluster_dir;
mod demo;
mod files;
mod lifecycle;
