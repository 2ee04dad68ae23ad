//! Tests of the simulator against an in-memory API.

mod cluster;
mod nodes;
mod pods;
