//! The simulator against an API in memory.

mod nodes;
mod pods;
mod stage;
