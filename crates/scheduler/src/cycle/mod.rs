//! One decision: a pod and its node, or why there is none.

mod engine;
mod nominator;
mod preempt;
#[cfg(test)]
mod tests;
mod victims;

pub(crate) use engine::{Engine, Found, Placement};
pub(crate) use nominator::Nominator;
pub(crate) use preempt::{Preemption, Tried};
