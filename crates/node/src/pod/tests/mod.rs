//! Pods against a runtime and an API in memory, with paused time.

mod cuts;
mod ends;
mod lives;
mod plans;
mod stage;
