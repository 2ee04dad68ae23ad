//! Pods: from what they ask for, and what is there, to what is done and told.
//!
//! ```text
//! API, files, runtime, probes --wake--> queue --> worker, one pass over one pod:
//!
//!   look      what is there of it
//!   status    what that makes it                        --> report --> API
//!   plan      what is missing
//!   act       does it: stop, start (spec, hosts, message, hooks), prune
//!
//! pods        all of them: who wakes whom, and what others ask
//! known       what is kept of each in memory
//! admission   whether this node takes it; grant, resize: and its resources
//! statics     pods from files, and their mirrors
//! backoff     how long what failed waits; gate: how many start at a time
//! told        what users are told
//! ```
//!
//! Promises:
//! - A pod has a worker only while there is something to do for it, and never two.
//! - All that is remembered is found again by looking: an agent that begins anew goes on where any other was cut off.

mod act;
mod admission;
pub(crate) mod backoff;
mod gate;
mod grant;
mod hooks;
mod hosts;
mod known;
mod look;
mod message;
mod parts;
mod plan;
mod pods;
mod report;
mod resize;
mod serves;
pub mod spec;
mod start;
mod statics;
pub mod status;
mod stop;
#[cfg(test)]
mod tests;
mod told;
mod worker;

pub use self::{
    parts::{Parts, Settings},
    pods::{Found, Pods, ShutdownBand},
};
