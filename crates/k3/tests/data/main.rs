//! Operations on a cluster and its data: snapshots, migration, certificates, logs and diagnosis.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

mod certs;
mod cluster;
mod doctor;
mod encryption;
mod log;
mod messages;
mod metrics;
mod migration;
mod nulls;
#[path = "../program/mod.rs"]
mod program;
mod snapshots;
mod usability;
