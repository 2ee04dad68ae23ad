//! The Node of this machine: registered, described, and known to live.
//!
//! ```text
//! address    where the machine is reached             capacity   what it has, and what pods may have of it
//! conditions how it is                                status     all of that as the Node says it, and what of it changed
//! keeper     writes it, when it changed or long ago   lease      says that it lives, whatever else is slow
//! ```
//!
//! Promises: labels, taints and annotations that others set are kept; a status that did not change is written every five
//! minutes; the lease is renewed by a task of its own, so that a slow API or a slow runtime does not end it.

pub(super) mod address;
mod capacity;
mod conditions;
mod events;
mod keeper;
mod lease;
mod status;

pub(super) use self::{
    conditions::Pressures,
    events::NodeEvents,
    keeper::{NodeKeeper, Parts, addresses, facts},
    lease::LeaseKeeper,
};
