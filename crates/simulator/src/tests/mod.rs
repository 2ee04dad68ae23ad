//! The simulator against an API in memory.

mod nodes;
mod null;
mod pods;
mod stage;
